"""`tenure doctor`: try the store's promises, and look after the queue."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import REFUSED, WrongUsage

app = typer.Typer()

_PREFIX = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "bold red")}


@command(app)
async def doctor(
    session: Session,
    rules: Annotated[bool, typer.Option("--rules", help="Only print the same alerts as rules for Prometheus.")] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Only print a dashboard for Grafana.")] = False,
    prefix: Annotated[
        str, typer.Option(help="Of the metrics, as in Prometheus(prefix=…); for rules and dashboard.")
    ] = "tenure",
) -> int:
    """Check the store's guarantees by trying them, and the queue's health.

    It works with tasks in a queue of its own (tenure.doctor) and leaves none behind. The exit
    code is 1 if there is a problem; warnings do not count.
    """
    import msgspec

    if rules or dashboard:
        from tenure.observe import alerts
        from tenure.observe import dashboard as grafana

        if not _PREFIX.fullmatch(prefix):
            msg = f"--prefix {prefix!r} cannot begin the name of a metric. Use letters, digits and underscores."
            raise WrongUsage(msg)
        session.out.say((alerts.rules(prefix) if rules else grafana.text(prefix)).rstrip())
        return 0
    from tenure import __version__
    from tenure.doctor import Finding, examine
    from tenure.stores.options import without_password

    out = session.out
    problems = 0
    if not out.as_json:
        out.say(f"tenure {__version__} on {without_password(session.url)}")
    async with await session.connect() as queue:
        finding: Finding
        async for finding in examine(queue):
            problems += finding.level == "problem"
            if out.as_json:
                out.emit(msgspec.to_builtins(finding))
                continue
            sign, style = SIGNS[finding.level]
            out.say(f"{sign} {finding.name}: {finding.text}", style=style if finding.level != "ok" else "")
            if finding.fix:
                out.say(f"    {finding.fix}")
    return REFUSED if problems else 0
