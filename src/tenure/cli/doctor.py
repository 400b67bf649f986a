"""`tenure doctor`: try the store's promises, and look after the queue."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import REFUSED

app = typer.Typer()

SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "bold red")}


@command(app)
async def doctor(
    session: Session,
    rules: Annotated[bool, typer.Option("--rules", help="Only print the same alerts as rules for Prometheus.")] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Only print a dashboard for Grafana.")] = False,
) -> int:
    """Check the store's guarantees by trying them, and the queue's health.

    It works with tasks in a queue of its own (tenure.doctor) and leaves none behind. The exit
    code is 1 if there is a problem; warnings do not count.
    """
    import msgspec

    if rules or dashboard:
        from tenure.observe import alerts
        from tenure.observe import dashboard as grafana

        session.out.say((alerts.FILE if rules else grafana.FILE).read_text().rstrip())
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
