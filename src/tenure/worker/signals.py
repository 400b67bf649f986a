"""Asking a worker to stop, as the system does it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def listening(on_signal: Callable[[str], None]) -> Iterator[None]:
    """Within, SIGTERM and SIGINT are told by name instead of ending the process. Only the main thread may listen."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    for number in previous:
        loop.add_signal_handler(number, on_signal, number.name)
    try:
        yield
    finally:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
