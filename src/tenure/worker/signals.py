"""Asking workers to stop, as the system does it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

SIGNALS = (signal.SIGTERM, signal.SIGINT)

Listener = Callable[[str], None]


@contextlib.contextmanager
def listening(on_signal: Listener) -> Iterator[None]:
    """Within, SIGTERM and SIGINT are told by name instead of ending the process. Only the main thread may listen.

    All workers of a loop hear them, and so does whoever has listened before: a web server with a worker beside it
    has to stop, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    ears = _ears.get(loop)
    if ears is None:
        ears = _ears[loop] = _Ears(loop)
    ears.listeners.append(on_signal)
    try:
        yield
    finally:
        ears.listeners.remove(on_signal)
        if not ears.listeners:
            del _ears[loop]
            ears.close()


class _Ears:
    """The signals of a process, taken over for as long as a worker of this loop listens."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.listeners: list[Listener] = []
        self._loop = loop
        # There is no public way to ask a loop what it does at a signal.
        others: dict[int, asyncio.Handle] = getattr(loop, "_signal_handlers", {})
        self._earlier = [(number, signal.getsignal(number), others.get(number)) for number in SIGNALS]
        for number, handler, handle in self._earlier:
            loop.add_signal_handler(number, self._hear, number, _teller(number, handler, handle))

    def _hear(self, number: signal.Signals, tell_earlier: Callable[[], Any] | None) -> None:
        for listener in list(self.listeners):
            listener(number.name)
        if tell_earlier is not None:
            # Many end the process by raising this. It will end when the workers have.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                tell_earlier()

    def close(self) -> None:
        """Give the signals back to those who had them."""
        for number, handler, handle in self._earlier:
            self._loop.remove_signal_handler(number)
            if handle is not None:
                self._loop.add_signal_handler(number, handle._callback, *handle._args)  # type: ignore[attr-defined]  # noqa: SLF001
            elif handler is not None:
                signal.signal(number, handler)


_ears: WeakKeyDictionary[asyncio.AbstractEventLoop, _Ears] = WeakKeyDictionary()


def _teller(number: int, handler: Any, handle: asyncio.Handle | None) -> Callable[[], Any] | None:
    """How to tell whoever has listened before; None if that was only Python itself, which would end the process or cancel all at once."""
    if handle is not None:
        return handle._run  # noqa: SLF001
    if not callable(handler) or handler is signal.default_int_handler or _is_of_asyncio_run(handler):
        return None
    return functools.partial(handler, number, None)


def _is_of_asyncio_run(handler: Any) -> bool:
    method = getattr(getattr(handler, "func", None), "__func__", None)
    return method is not None and method is getattr(asyncio.Runner, "_on_sigint", None)
