"""`tenure worker`: run an application's tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.command import Session, command

app = typer.Typer()


@command(app)
async def worker(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="MODULE:OBJECT")],
) -> None:
    """Run the tasks of an application until stopped."""
    import importlib

    module, _, name = target.partition(":")
    found = getattr(importlib.import_module(module), name)
    async with await session.connect() as queue:
        await found.worker(queue).run()
