"""`tenure demo`: everything at once on a temporary file, in less than a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.command import Session, command

if TYPE_CHECKING:
    from tenure.cli.demo.account import Account
    from tenure.cli.output import Output

app = typer.Typer()


@command(app)
async def demo(
    session: Session,
    tasks: Annotated[int, typer.Option(help="About how many tasks to submit.", min=300, max=100_000)] = 3000,
) -> int:
    """Watch two workers, one of them killed, and all tasks accounted for.

    It works on a temporary SQLite file of its own and takes about a quarter of a minute. The
    exit code is 0 only if nothing was lost and nothing was completed twice.
    """
    from tenure.cli.demo.show import show

    account = await show(session.out, tasks)
    _print(session.out, account)
    return 0 if account.adds_up else 1


def _print(out: Output, account: Account) -> None:
    if out.as_json:
        checks = [{"holds": check.holds, "text": check.text} for check in account.checks]
        out.emit({"types": account.rows, "total": account.total, "checks": checks, "adds_up": account.adds_up})
        return
    columns = ["submitted", "completed", "failed", "expired", "cancelled", "open", "claims", "lapsed"]
    rows = [[type_, *(f"{row[column]:,}" for column in columns)] for type_, row in account.rows.items()]
    total = ["total", *(f"{account.total.get(column, 0):,}" for column in columns)]
    out.say()
    out.table(["type", *columns], rows, right=columns, total=total)
    for check in account.checks:
        out.say(f"{'✓' if check.holds else '✗'} {check.text}", style="green" if check.holds else "bold red")
    out.say()
    if account.adds_up:
        out.say("The account adds up. The temporary file is gone; yours would still be there.", style="bold")
    else:
        out.say("The account does not add up. This is a defect: please report what you see above.", style="bold red")
