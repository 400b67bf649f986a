"""Where a handler runs: on the loop, on a thread, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import signal
import traceback
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import anyio
import anyio.to_process
import msgspec
import pydantic

from tenure import payload
from tenure.errors import InvalidInput, PermanentError, RescheduleError
from tenure.lifecycle import Failure
from tenure.worker import surroundings
from tenure.worker.handlers import Handler, make_handler
from tenure.worker.signals import SIGNALS
from tenure.worker.threads import DaemonThreads


class HandlerFailed(Exception):
    """A failure that happened in another process, with its own words and traceback."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Executors:
    """The threads and processes of one worker. They are started when first needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads: DaemonThreads | None = None
        self._limiter: anyio.CapacityLimiter | None = None
        self.abandoned = 0
        """Threads that still run a handler whose attempt is already over."""

    def call_on_thread(self, handler: Handler, arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Start a plain handler on a thread, with the caller's context variables."""
        if self._threads is None:
            self._threads = surroundings.threads(self._size, "tenure-handler")
        call = partial(contextvars.copy_context().run, _carried, handler.function, *arguments)
        return asyncio.wrap_future(self._threads.submit(call))

    def abandon(self, call: asyncio.Future[Any]) -> None:
        """A thread cannot be stopped: let it run out, and count its slot as taken until then."""
        self.abandoned += 1
        call.add_done_callback(self._reclaim)

    def _reclaim(self, call: asyncio.Future[Any]) -> None:
        self.abandoned -= 1
        if not call.cancelled():
            call.exception()

    async def call_in_process(self, handler: Handler, raw: msgspec.Raw) -> Any:
        """Run a plain handler in another process; when this is cancelled, that process is killed."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(self._size)
        function = handler.function
        try:
            kind, answer = await anyio.to_process.run_sync(
                _in_process,
                function.__module__,
                function.__qualname__,
                handler.type,
                bytes(raw),
                cancellable=True,
                limiter=self._limiter,
            )
        except anyio.BrokenWorkerProcess:
            msg = "the process of the handler died"
            raise HandlerFailed(Failure(msg)) from None
        if kind == "failure":
            raise HandlerFailed(Failure(*answer))
        if kind == "reschedule":
            raise RescheduleError(*answer)
        return msgspec.Raw(answer)

    def close(self) -> None:
        """Let idle threads go; a thread that is still busy ends when its handler does."""
        if self._threads is not None:
            self._threads.close()


def failure_of(error: BaseException) -> Failure:
    """What is kept of an exception: its words, its traceback, and whether another attempt makes sense."""
    if isinstance(error, HandlerFailed):
        return error.failure
    trace = "".join(traceback.format_exception(error))
    name, words = type(error).__name__, _words(error)
    return Failure(f"{name}: {words}" if words else name, trace, permanent=is_permanent(error))


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


def refusal(error: Exception) -> str:
    """Why an input was refused, field by field. What the fields hold may be secret, and is in the task."""
    if not isinstance(error, pydantic.ValidationError):
        return str(error)
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'input'}: {one['msg']}" for one in found)


def not_json(error: InvalidInput) -> Failure:
    """A result that cannot be kept: the next attempt would return the same."""
    return Failure(f"the handler returned something that is not JSON: {error}", permanent=True)


def is_permanent(error: BaseException | None) -> bool:
    """Whether a PermanentError was raised, or is the cause of what was raised."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, PermanentError):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False


def _carried(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a thread. These exceptions mean something else to asyncio, so they go in disguise."""
    try:
        return function(*arguments)
    except (StopIteration, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit) as error:
        msg = f"the handler raised {type(error).__name__}"
        raise RuntimeError(msg) from error


def _in_process(module: str, name: str, type_: str, raw: bytes) -> tuple[str, Any]:
    """Runs in the other process. Only texts and numbers cross back, so that nothing there needs to be picklable."""
    # A terminal and a service manager tell every process of the group. What that means for a handler is for its worker to say.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    try:
        handler = _find_handler(module, name, type_)
        value = handler.function(handler.read(msgspec.Raw(raw)))
        try:
            return "output", bytes(payload.output_json(value))
        except InvalidInput as error:
            return "failure", msgspec.structs.astuple(not_json(error))
    except RescheduleError as error:
        return "reschedule", (error.delay_seconds, error.extend_expiration_seconds)
    except BaseException as error:
        return "failure", msgspec.structs.astuple(failure_of(error))


@cache
def _find_handler(module: str, name: str, type_: str) -> Handler:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return make_handler(type_, getattr(found, "function", found), executor="process")
