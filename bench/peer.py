"""One system of the comparison, in the environment of its own: `python -P peer.py NAME client|worker URL …`.

`peers/NAME.py` holds a class `Peer`: how this system submits, works, and tells how much is left. Everything
around it is here and the same for all. Only the standard library is used, since the environment is the peer's.

The client does what it is told, a line of JSON at a time, and answers with a line. The worker says that it is
ready, waits for a line, and works until it is killed; what it ran stands in a file that both sides map.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import mmap
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CALLERS = 50
BULK = 1000


class Notes:
    """Which tasks ran, how often, and when each began: a byte and a time for every number."""

    def __init__(self, path: str, pause: float) -> None:
        self.pause = pause
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        count = len(self._map) // 9
        self._times = memoryview(self._map)[: count * 8].cast("d")
        self._runs = memoryview(self._map)[count * 8 :]

    def __call__(self, payload: dict[str, Any]) -> None:
        """The handler's work: note that this task runs."""
        number = payload["number"]
        self._times[number] = time.monotonic()
        self._runs[number] += 1


def payload(number: int) -> dict[str, Any]:
    return {"number": number, "user_id": f"user-{number % 1000}", "text": "Your appointment is tomorrow", "sent": 0.0}


class Client:
    """Submits, in the ways that the peer knows."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._threads = None if inspect.iscoroutinefunction(peer.submit) else ThreadPoolExecutor(CALLERS)

    async def prepare(self) -> dict[str, Any]:
        await _done(self._peer.prepare())
        return {"settings": getattr(self._peer, "settings", "")}

    async def left(self) -> dict[str, Any]:
        return {"left": await _done(self._peer.left())}

    async def one(self, first: int, count: int) -> dict[str, Any]:
        begin = time.monotonic()
        for number in range(first, first + count):
            await _done(self._peer.submit(payload(number)))
        return {"begin": begin, "end": time.monotonic()}

    async def callers(self, first: int, count: int) -> dict[str, Any]:
        """Fifty at a time: coroutines, or threads where the system has no others."""
        numbers = iter(range(first, first + count))

        async def call() -> None:
            for number in numbers:
                await self._peer.submit(payload(number))

        def call_on_a_thread() -> None:
            for number in numbers:
                self._peer.submit(payload(number))

        loop = asyncio.get_running_loop()
        begin = time.monotonic()
        if self._threads is None:
            await asyncio.gather(*(call() for _ in range(CALLERS)))
        else:
            calls = [loop.run_in_executor(self._threads, call_on_a_thread) for _ in range(CALLERS)]
            await asyncio.gather(*calls)
        return {"begin": begin, "end": time.monotonic()}

    async def bulk(self, first: int, count: int) -> dict[str, Any]:
        if not hasattr(self._peer, "submit_many"):
            return {"missing": "no submit of many at once"}
        begin = time.monotonic()
        for start in range(first, first + count, BULK):
            numbers = range(start, min(start + BULK, first + count))
            await _done(self._peer.submit_many([payload(number) for number in numbers]))
        return {"begin": begin, "end": time.monotonic()}

    async def paced(self, first: int, count: int, every: float) -> dict[str, Any]:
        """One now and then, for a worker that idles."""
        sent = []
        for number in range(first, first + count):
            await asyncio.sleep(every)
            sent.append(time.monotonic())
            await _done(self._peer.submit(payload(number)))
        return {"sent": sent}


async def serve(peer: Any) -> None:
    """Do what is asked for, until nothing more is."""
    client = Client(peer)
    loop = asyncio.get_running_loop()
    await _done(peer.open())
    _say({"ready": True})
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        words = json.loads(line)
        try:
            _say(await getattr(client, words.pop("do"))(**words))
        except Exception as error:
            _say({"error": f"{type(error).__name__}: {error}"})


async def work(peer: Any, notes: Notes, concurrency: int) -> None:
    await _done(peer.open())
    _say({"ready": True})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await peer.work(notes, concurrency)


def work_without_asyncio(peer: Any, notes: Notes, concurrency: int) -> None:
    peer.open()
    _say({"ready": True})
    sys.stdin.readline()
    peer.work(notes, concurrency)


async def _done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _say(answer: dict[str, Any]) -> None:
    # The peer may print what it likes: only these lines begin like this.
    sys.stdout.write(f"bench: {json.dumps(answer)}\n")
    sys.stdout.flush()


def _adapter(name: str) -> Any:
    """The module is known by a name that no package has: `huey.py` is not huey."""
    path = Path(__file__).parent / "peers" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(name: str, role: str, url: str, *more: str) -> None:
    module = _adapter(name)
    run: Callable[[Any], Any] = getattr(module, "run", asyncio.run)
    peer = module.Peer(url)
    if role == "client":
        run(serve(peer))
        return
    path, concurrency, pause = more
    notes = Notes(path, float(pause))
    if inspect.iscoroutinefunction(peer.work):
        run(work(peer, notes, int(concurrency)))
    else:
        work_without_asyncio(peer, notes, int(concurrency))


if __name__ == "__main__":
    main(*sys.argv[1:])
