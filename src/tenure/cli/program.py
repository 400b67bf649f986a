"""All commands together, and the way in and out of them."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tenure.cli import (
    bench,
    config,
    demo,
    dlq,
    doctor,
    health,
    look,
    move,
    operate,
    schema,
    submit,
    table,
    tail,
    top,
    worker,
)
from tenure.cli.command import PANEL, Json, Profile, Url, Verbose, nobody_listens
from tenure.cli.errors import REFUSED, USAGE, exit_code

PATIENCE = 1.0
OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
COMPLETE = "_TENURE_COMPLETE"

HELP = ("-h", "--help")


class Program(TyperGroup):
    """Shows its commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer calls it so
        """One section per group, with the first sentence of each command."""
        for panel in GROUPS:
            rows = [
                (name, command.get_short_help_str(formatter.width))
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == panel
            ]
            with formatter.section(panel):
                formatter.write_dl(rows)


app = typer.Typer(
    name="tenure",
    cls=Program,
    help="Durable background tasks on the storage you already run.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": list(HELP)},
)

GROUPS = {
    "Tasks": (submit, look, operate, dlq),
    "Work": (worker,),
    "Watch": (tail, health, top, doctor),
    "Move": (move,),
    "Store": (schema, table, bench),
    "More": (demo, config),
}
for panel, modules in GROUPS.items():
    for module in modules:
        for entry in (*module.app.registered_commands, *module.app.registered_groups):
            entry.rich_help_panel = panel
        app.add_typer(module.app)


def _version(wanted: bool) -> None:
    if wanted:
        from tenure import __version__

        sys.stdout.write(f"tenure {__version__}\n")
        raise typer.Exit


@app.callback()
def before(
    url: Url = None,
    profile: Profile = None,
    json: Json = False,
    verbose: Verbose = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True, rich_help_panel=PANEL),
    ] = False,
) -> None:
    """Durable background tasks on the storage you already run."""


def run() -> NoReturn:
    """Run the command that the arguments of this process name, and leave with its exit code."""
    _leave(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run a command; returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Whoever closed it does not want to read anything.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    words = list(arguments) or ["--help"]
    # The first page must be there at once, and rich takes longer to load than all the rest.
    app.rich_markup_mode = "rich" if sys.stdout.isatty() and words[0] not in HELP else None
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        code = typer.main.get_command(app).main(words, prog_name="tenure", complete_var=COMPLETE, standalone_mode=False)
    except Exception as error:
        code = _fail(error, words)
    return int(code or 0)


def _leave(code: int) -> NoReturn:
    """A thread that is stuck in somebody's handler must not keep a stopped process alive."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        nobody_listens()
    except OSError as error:
        # What could not be written stands in the buffer still, and would be tried again on the way out.
        nobody_listens()
        code = _fail(error, sys.argv[1:])
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    deadline = time.monotonic() + PATIENCE
    for thread in others:
        thread.join(max(deadline - time.monotonic(), 0))
    if any(thread.is_alive() for thread in others):
        os._exit(code)
    sys.exit(code)


def _fail(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong in a line or two, and return the exit code."""
    verbose, as_json = "--verbose" in words, "--json" in words
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(f"{error}\n")
        return 0
    if isinstance(error, typer.Abort):
        message, code = "Nothing was done.", REFUSED
    elif (shown := getattr(error, "format_message", None)) is not None:
        context = getattr(error, "ctx", None)
        message = f"{shown()}\nSee: {context.command_path if context else 'tenure'} --help"
        code = USAGE
    elif (known := exit_code(error)) is not None:
        message, code = str(error), known
    elif isinstance(error, OSError) and (error.filename is not None or error.errno in OUTPUT_LOST):
        # What the library opens itself has errors of its own: this is a file that the caller named, or the output.
        message, code = _trouble_with_a_file(error), REFUSED
    else:
        verbose = True
        message, code = f"{type(error).__name__}: {error}\nThis is a defect of Tenure; please report it.", REFUSED
    if verbose:
        import traceback

        traceback.print_exception(error)
    if as_json:
        line = json.dumps({"error": {"kind": type(error).__name__, "message": message, "exit_code": code}})
        sys.stderr.write(line + "\n")
    else:
        sys.stderr.write(f"error: {message}\n")
    return code


def _trouble_with_a_file(error: OSError) -> str:
    what = "The output" if error.filename is None else repr(str(error.filename))
    return f"{what} cannot be read or written: {error.strerror or error}. Check the path, its permissions and the room on the disk."
