"""`tenure config` and `tenure completions`: the command line itself."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tenure.cli.command import Session, command

app = typer.Typer()
config = typer.Typer(help="The settings of the command line.", no_args_is_help=True)
app.add_typer(config, name="config")


class Shell(enum.StrEnum):
    """The shells that can complete our words."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@command(config)
async def show(session: Session) -> None:
    """Every setting, and where it came from."""
    from tenure.stores.options import without_password

    settings = session.settings
    values = {**({"profile": settings.profile} if settings.profile else {}), **settings}
    shown = {
        name: (without_password(setting.value) if name == "url" else setting.value, setting.source)
        for name, setting in values.items()
    }
    if session.out.as_json:
        session.out.emit({name: {"value": value, "source": source} for name, (value, source) in shown.items()})
        return
    rows = [
        (name, "-" if value is None else ", ".join(value) if isinstance(value, list) else value, source)
        for name, (value, source) in shown.items()
    ]
    session.out.table(["setting", "value", "source"], rows)


@command(app)
async def completions(
    session: Session, shell: Annotated[Shell, typer.Argument(help="Which shell.", show_default=False)]
) -> None:
    """Print the script that lets a shell complete commands and options.

    For bash: tenure completions bash >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    from tenure.cli.program import COMPLETE

    script = get_completion_script(prog_name="tenure", complete_var=COMPLETE, shell=shell.value)
    if session.out.as_json:
        session.out.emit({"shell": shell.value, "script": script})
    else:
        session.out.say(script)
