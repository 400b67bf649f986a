"""What a worker takes from its machine: a clock that only goes forward, a thread with a loop of its own, threads for calls.

Everything else goes through the event loop, the store and `random`. So a simulation that puts its own in the place
of these three can run the worker as it is.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from tenure.worker.threads import DaemonThreads

monotonic = time.monotonic
threads = DaemonThreads


def on_its_own_thread(main: Callable[[], Coroutine[Any, Any, None]], name: str) -> Future[None]:
    """Run a coroutine on the loop of a new thread; the answer comes when it has ended."""
    ended: Future[None] = Future()

    def run() -> None:
        try:
            asyncio.run(main())
        finally:
            ended.set_result(None)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended
