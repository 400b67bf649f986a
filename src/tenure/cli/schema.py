"""`tenure migrate` and `tenure sql`: the schema of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import REFUSED

app = typer.Typer()


@command(app)
async def migrate(
    session: Session,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; the exit code is 1 if there is something to do.")
    ] = False,
) -> int:
    """Bring the schema of the store up to date."""
    from tenure.stores import schema

    before, newest = await schema.versions(session.url)
    if not check:
        async with await session.connect():
            """Connecting brings the schema up to date."""
    after = before if check else newest
    if session.out.as_json:
        session.out.emit({"before": before, "now": after, "newest": newest})
    elif before == newest:
        session.out.say(f"The schema is up to date: version {newest}.")
    else:
        session.out.say(
            f"The schema {'has' if check else 'had'} version {before}; {'newest' if check else 'now'}: {newest}."
        )
    return REFUSED if check and before != newest else 0


@command(app)
async def sql(
    session: Session,
    since: Annotated[int, typer.Option(metavar="VERSION", help="Only what comes after this version.", min=0)] = 0,
) -> None:
    """Print the migrations, for people with their own migration tool."""
    from tenure.stores import schema

    for number, script in enumerate(schema.scripts(session.url), start=1):
        if number <= since:
            continue
        if session.out.as_json:
            session.out.emit({"version": number, "sql": script})
        else:
            session.out.say(script.rstrip() + "\n")
