"""What may serve as a handler, and how its input is read."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, Protocol

import msgspec
import pydantic
import typing_extensions

from tenure import payload
from tenure.errors import InvalidHandler, InvalidInput, one_of
from tenure.retry import RetryPolicy, within_bounds
from tenure.submission import timeout_seconds

Executor = Literal["async", "thread", "process"]
EXECUTORS = ("async", "thread", "process")

EXAMPLE = """Write it like this:

    async def handler(input: MyInput, context: Context) -> dict: ...

The second parameter may be left out, and so may `async`."""

INHERIT: Any = msgspec.UNSET
"""A handler that says nothing about retries has those of its worker."""


class BaseJobHandler:
    """A handler as a class: say what the payload looks like, and handle it.

    One object is made per attempt. `handle` may be async, and may take a context as well.
    """

    @classmethod
    def payload_model(cls) -> Any:
        """The type that the input must have: a pydantic model, or anything pydantic can check."""
        return Any

    def handle(self, payload: Any) -> Any:
        """Do the work; what is returned is kept as the task's output."""
        msg = f"{type(self).__name__} must define handle(self, payload)."
        raise NotImplementedError(msg)


class Handler(msgspec.Struct, frozen=True):
    """A function that serves one type of task."""

    type: str
    function: Callable[..., Any]
    takes_context: bool
    executor: Executor
    adapter: pydantic.TypeAdapter[Any] | None = None
    timeout: float | None = None
    retry: RetryPolicy | None = INHERIT

    def read(self, raw: msgspec.Raw) -> Any:
        """The input as its annotation wants it; pydantic's error tells what does not fit."""
        return payload.from_json(raw) if self.adapter is None else self.adapter.validator.validate_json(bytes(raw))


class HoldsHandler(Protocol):
    """What an application makes of a function: it brings its handler along."""

    @property
    def handler(self) -> Handler:
        """The handler."""


def name_of(handler: Any) -> str:
    """The type that a handler has if nobody gives it another: its `job_type`, or its own name."""
    name = getattr(handler, "job_type", None) or getattr(handler, "__name__", None)
    if name is None:
        msg = f"{handler!r} has no name. Say which type it handles, as in register(handler, 'my_type')."
        raise InvalidHandler(msg)
    return str(name)


def made_handler(handler: Handler | HoldsHandler) -> Handler:
    """A handler that was made before, or that of a task of an application."""
    made = getattr(handler, "handler", handler)
    if not isinstance(made, Handler):
        msg = f"{handler!r} is no handler that was made before. Register functions and classes: worker.register({handler!r})."
        raise InvalidHandler(msg)
    return made


def make_handler(
    type_: str,
    function: Any,
    *,
    timeout: float | timedelta | None = None,
    retry: RetryPolicy | None = INHERIT,
    executor: Executor | None = None,
) -> Handler:
    """Look a function or handler class over; whatever is wrong with it is said now, not when a task arrives."""
    if not isinstance(type_, str) or not type_:
        msg = f"The type of a task must be a string with at least one character, not {type_!r}."
        raise InvalidHandler(msg)
    try:
        seconds = None if timeout is None else timeout_seconds("timeout", timeout)
    except InvalidInput as error:
        msg = f"The handler of {type_!r} has timeout={timeout!r}: {error}"
        raise InvalidInput(msg) from None
    if retry is not None and retry is not INHERIT and not isinstance(retry, RetryPolicy):
        msg = f"The handler of {type_!r} has retry={retry!r}; give a RetryPolicy, or None for a single attempt."  # type: ignore[unreachable]
        raise InvalidInput(msg)
    if isinstance(retry, RetryPolicy):
        within_bounds(f"The handler of {type_!r} has a retry policy", retry)
    if inspect.isclass(function):
        function, annotation, takes_context, is_async = _look_at_class(type_, function)
    else:
        annotation, takes_context, is_async = _look_at_function(type_, function)
    executor = executor or ("async" if is_async else "thread")
    _check_executor(type_, function, executor, is_async=is_async, takes_context=takes_context)
    return Handler(
        type=type_,
        function=function,
        takes_context=takes_context,
        executor=executor,
        adapter=_adapter(type_, annotation),
        timeout=seconds,
        retry=retry,
    )


def _look_at_function(type_: str, function: Any) -> tuple[Any, bool, bool]:
    if not callable(function):
        msg = f"The handler of {type_!r} is {function!r}, which cannot be called. {EXAMPLE}"
        raise InvalidHandler(msg)
    _refuse_generator(type_, function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        msg = f"The handler of {type_!r} is {function!r}, whose parameters Python does not tell. {EXAMPLE}"
        raise InvalidHandler(msg) from None
    takes_context = _takes_context(type_, function, parameters)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    return _annotation(type_, function, parameters[0]), takes_context, is_async


def _look_at_class(type_: str, handler: type) -> tuple[Callable[..., Any], Any, bool, bool]:
    model, handle = getattr(handler, "payload_model", None), getattr(handler, "handle", None)
    if not callable(model) or not callable(handle) or handle is BaseJobHandler.handle:
        msg = (
            f"{handler.__name__} cannot handle {type_!r}: a handler class has a classmethod payload_model() "
            "and a method handle(self, payload). Derive it from tenure.BaseJobHandler."
        )
        raise InvalidHandler(msg)
    _refuse_generator(type_, handle)
    _check_construction(type_, handler)
    parameters = list(inspect.signature(handle).parameters.values())[1:]
    takes_context = _takes_context(type_, handle, parameters)
    is_async = inspect.iscoroutinefunction(handle)

    def run(*arguments: Any) -> Any:
        return handle(handler(), *arguments)

    async def run_async(*arguments: Any) -> Any:
        return await handle(handler(), *arguments)

    return (run_async if is_async else run), _payload_model(type_, handler), takes_context, is_async


def _check_construction(type_: str, handler: Any) -> None:
    try:
        signature = inspect.signature(handler)
    except (ValueError, TypeError):
        # Python does not tell what it needs.
        return
    try:
        signature.bind()
    except TypeError as error:
        msg = (
            f"{handler.__name__} cannot handle {type_!r}: each attempt makes one as {handler.__name__}(), and {error}."
        )
        raise InvalidHandler(msg) from None
    if inspect.isabstract(handler):
        missing = ", ".join(sorted(handler.__abstractmethods__))
        msg = (
            f"{handler.__name__} cannot handle {type_!r}: each attempt makes one, and it is abstract. Define {missing}."
        )
        raise InvalidHandler(msg)


def _payload_model(type_: str, handler: Any) -> Any:
    try:
        return handler.payload_model()
    except Exception as error:
        msg = (
            f"{handler.__name__} cannot handle {type_!r}: {handler.__name__}.payload_model() raised "
            f"{type(error).__name__}: {error}. Make it a classmethod that returns the type of the payload."
        )
        raise InvalidHandler(msg) from error


def _refuse_generator(type_: str, function: Any) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"The handler of {type_!r} is a generator, which would never be run: return the result, do not yield it. {EXAMPLE}"
        raise InvalidHandler(msg)


def _takes_context(type_: str, function: Any, parameters: list[inspect.Parameter]) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    usable = [parameter for parameter in parameters if parameter.kind in positional]
    if not usable or len(needed) > 2 or any(parameter not in usable[:2] for parameter in needed):
        name = getattr(function, "__qualname__", repr(function))
        msg = f"{name}{inspect.signature(function)} cannot handle {type_!r}: it must take the input, and may take a context. {EXAMPLE}"
        raise InvalidHandler(msg)
    return len(usable) > 1 and (usable[1].default is usable[1].empty or usable[1].name == "context")


def _annotation(type_: str, function: Any, parameter: inspect.Parameter) -> Any:
    if parameter.annotation is parameter.empty:
        return Any
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = function.__call__
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        msg = (
            f"The handler of {type_!r} annotates its input as {parameter.annotation!r}, and {error}. "
            "Define that type at the top of the module, outside `if TYPE_CHECKING`."
        )
        raise InvalidHandler(msg) from None


def _adapter(type_: str, annotation: Any) -> pydantic.TypeAdapter[Any] | None:
    if annotation is Any:
        return None
    try:
        return pydantic.TypeAdapter(_readable(annotation))
    except pydantic.errors.PydanticUserError as error:
        msg = f"The input of {type_!r} is annotated as {annotation!r}, which pydantic cannot check: {error.message.splitlines()[0]}"
        raise InvalidHandler(msg) from None


def _readable(annotation: Any) -> Any:
    """Before Python 3.12, pydantic reads the TypedDict of typing_extensions only; this makes one out of the other."""
    if sys.version_info >= (3, 12) or not typing.is_typeddict(annotation) or not _is_of_typing(annotation):
        return annotation
    hints = typing.get_type_hints(annotation, include_extras=True)
    fields = {
        name: hint if name in annotation.__required_keys__ else typing_extensions.NotRequired[hint]
        for name, hint in hints.items()
    }
    return typing_extensions.TypedDict(annotation.__name__, fields)  # type: ignore[operator]


def _is_of_typing(annotation: Any) -> bool:
    return type(annotation).__module__ == "typing"


def _check_executor(type_: str, function: Any, executor: str, *, is_async: bool, takes_context: bool) -> None:
    if executor not in EXECUTORS:
        raise InvalidHandler(one_of("executor", executor, EXECUTORS))
    if is_async != (executor == "async"):
        kind = (
            "an async function runs on the event loop"
            if is_async
            else "a plain function runs on a thread or in a process"
        )
        msg = f"The handler of {type_!r} asks for executor={executor!r}, but {kind}."
        raise InvalidHandler(msg)
    if executor == "process":
        if takes_context:
            msg = f"The handler of {type_!r} runs in a process of its own, where no context can follow. Let it take the input only."
            raise InvalidHandler(msg)
        if "<" in getattr(function, "__qualname__", "<"):
            msg = f"The handler of {type_!r} runs in a process of its own, which must find it by name. Define it at the top of a module."
            raise InvalidHandler(msg)
