"""Asking workers to stop, as the system does it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

SIGNALS = (signal.SIGTERM, signal.SIGINT)

Listener = Callable[[str], None]

_PYTHONS_FIRST = (signal.SIG_DFL, signal.default_int_handler)


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
        self._closed = False
        self._caught_so_far: set[int] = set()
        self._unheard: deque[signal.Signals] = deque()
        self._earlier = {number: signal.getsignal(number) for number in SIGNALS}
        self._alarms = {number: self._alarm(number) for number in SIGNALS}
        # A loop's own way would forget what comes while it lets go of the signals. Others who listen by it still hear.
        for number in SIGNALS:
            signal.signal(number, self._caught)

    def _alarm(self, number: int) -> asyncio.Handle | None:
        """What lets the signal wake the loop, also when another thread gets it; None if somebody else has seen to that."""
        if self._by_loop(number) is not None:
            return None
        with contextlib.suppress(NotImplementedError):
            self._loop.add_signal_handler(number, self._woken, number)
        return self._by_loop(number)

    def _by_loop(self, number: int) -> asyncio.Handle | None:
        # There is no public way to ask a loop what it does at a signal.
        handlers: dict[int, asyncio.Handle] = getattr(self._loop, "_signal_handlers", {})
        return handlers.get(number)

    def _woken(self, number: int) -> None:
        """The loop has seen a signal. Nobody else has if it came before `_caught` was there, and nobody has taken its place since."""
        if number not in self._caught_so_far and signal.getsignal(number) == self._caught:
            self._caught(number, None)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        """Python calls this in the middle of anything; the loop tells those who listen."""
        if self._closed:
            self._pass_on(number, frame)
            return
        self._caught_so_far.add(number)
        self._unheard.append(signal.Signals(number))
        if self._loop.is_closed():
            self.close()
        else:
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        while self._unheard:
            number = self._unheard.popleft()
            for listener in list(self.listeners):
                listener(number.name)
            earlier = self._earlier[number]
            if callable(earlier) and not _is_pythons_own(earlier):
                # Many end the process by raising this. It will end when the workers have.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    earlier(number, None)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Somebody took the signals over for a while, and has put back what was there when a worker still listened."""
        earlier = self._earlier[signal.Signals(number)]
        if callable(earlier):
            earlier(number, frame)
        elif earlier is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def close(self) -> None:
        """Give the signals back to those who had them, with what nobody has heard yet."""
        self._closed = True
        for number, earlier in self._earlier.items():
            handler = signal.getsignal(number)
            alarm = self._alarms.pop(number, None)
            if alarm is not None and self._by_loop(number) is alarm:
                self._loop.remove_signal_handler(number)
            # Somebody else may have taken it over meanwhile. A loop that was closed has put there what Python begins with.
            left_by_loop = alarm is not None and self._loop.is_closed() and handler in _PYTHONS_FIRST
            if handler == self._caught or left_by_loop:
                handler = signal.SIG_DFL if earlier is None else earlier
            if handler is not None:
                signal.signal(number, handler)
        while self._unheard:
            number = self._unheard.popleft()
            handler = signal.getsignal(number)
            if callable(handler):
                handler(number, None)
            else:
                signal.raise_signal(number)


_ears: WeakKeyDictionary[asyncio.AbstractEventLoop, _Ears] = WeakKeyDictionary()


def _is_pythons_own(handler: Any) -> bool:
    """Whether it would end the process or cancel all at once, which is what the workers take its place for."""
    method = getattr(getattr(handler, "func", None), "__func__", None)
    return handler is signal.default_int_handler or (
        method is not None and method is getattr(asyncio.Runner, "_on_sigint", None)
    )
