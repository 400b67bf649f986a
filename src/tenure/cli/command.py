"""What every command has: where the queue is, how to speak, and how to fail."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NamedTuple, ParamSpec

import typer

from tenure.cli.output import Output

if TYPE_CHECKING:
    from tenure.queue import Queue
    from tenure.settings import Settings

P = ParamSpec("P")
PANEL = "Every command"

Url = Annotated[
    str | None, typer.Option("--url", help="Address of the store.", show_default=False, rich_help_panel=PANEL)
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", help="Profile of the settings file.", show_default=False, rich_help_panel=PANEL),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, one object per line.", rich_help_panel=PANEL)]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.", rich_help_panel=PANEL)]
COMMON: dict[str, tuple[Any, Any]] = {
    "url": (Url, None),
    "profile": (Profile, None),
    "json": (Json, False),
    "verbose": (Verbose, False),
}


class Options(NamedTuple):
    """Options that several commands share: `Annotated[What, Options(…)]` stands for all of them in a signature."""

    options: dict[str, tuple[Any, Any]]
    """Annotations and defaults by name."""
    read: Callable[..., Any]
    """Makes the value of the parameter from theirs."""


class Session:
    """One run of one command."""

    def __init__(
        self, *, url: str | None = None, profile: str | None = None, as_json: bool = False, verbose: bool = False
    ) -> None:
        self._url = url
        self.profile = profile
        self.verbose = verbose
        self.out = Output(as_json=as_json)

    @property
    def url_given(self) -> bool:
        """Whether the command line itself names the store."""
        return self._url is not None

    @functools.cached_property
    def settings(self) -> Settings:
        """The settings that hold here, each with where it came from."""
        from tenure.settings import find_settings

        settings = find_settings(url=self._url, profile=self.profile)
        for warning in settings.warnings:
            self.out.note(f"note: {warning}")
        return settings

    @property
    def url(self) -> str:
        """The address of the store."""
        return str(self.settings["url"].value)

    async def connect(self) -> Queue:
        """The queue behind the address; whoever asks closes it."""
        from tenure.queue import connect

        return await connect(self.url)


Body = Callable[Concatenate[Session, P], Coroutine[Any, Any, int | None]]


def command(app: typer.Typer, name: str | None = None, **settings: Any) -> Callable[[Body[P]], Body[P]]:
    """Make `async def name(session, …)` a command, with the options that every command has.

    What it returns is the exit code; None is 0.
    """

    def register(body: Body[P]) -> Body[P]:
        app.command(name, **settings)(_as_function(body))
        return body

    return register


def nobody_listens() -> None:
    """Whoever read our output has left, like `head` does: nothing is wrong, and the rest goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_function(body: Body[P]) -> Callable[..., None]:
    @functools.wraps(body)
    def run(context: typer.Context, **given: Any) -> None:
        import asyncio

        from tenure.punctual import punctual_loop

        for name, group in groups.items():
            given[name] = group.read(**{option: given.pop(option) for option in group.options})
        common = {option: given.pop(option) for option in COMMON}
        outer = context.find_root().params
        for option, value in common.items():
            common[option] = value or outer.get(option)
        session = Session(
            url=common["url"],
            profile=common["profile"],
            as_json=bool(common["json"]),
            verbose=bool(common["verbose"]),
        )
        try:
            with asyncio.Runner(loop_factory=punctual_loop) as runner:
                code = runner.run(body(session, **given))  # type: ignore[call-arg]
        except BrokenPipeError:
            nobody_listens()
            code = 0
        raise typer.Exit(code or 0)

    own = typing.get_type_hints(body, include_extras=True)
    groups: dict[str, Options] = {}
    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for name, parameter in list(inspect.signature(body).parameters.items())[1:]:
        if (group := _group(own[name])) is not None:
            groups[name] = group
            parameters += _parameters(group.options)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own[name]))
    parameters += _parameters(COMMON)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _group(annotation: Any) -> Options | None:
    return next((each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, Options)), None)


def _parameters(options: dict[str, tuple[Any, Any]]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for option, (annotation, default) in options.items()
    ]
