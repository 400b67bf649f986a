"""One thread per connection: calls queue up, and a writer commits all that wait in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tenure.errors import StoreUnusable
from tenure.stores.door import Door
from tenure.stores.sqlite import hurry
from tenure.stores.sqlite.connection import explained, identity, is_busy, is_full, open_connection, patiently
from tenure.stores.sqlite.forking import use_of

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

GROUP_LIMIT = 256
"""The most calls in one transaction, so that other processes get their turn."""


class ConnectionThread:
    """Runs calls on a connection of its own, one after the other. Any thread and any event loop may call."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._connection = open_connection(path)
        self._use = use_of(self._connection)
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.door = Door(f"The store on {path}")
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue `work`, which gets the connection; the answer comes after it is durable."""
        return self._put(_Call(work))

    def _put(self, call: _Call) -> asyncio.Future[Any]:
        # Before the lock, too: in a forked child it may be held by a thread that is not there.
        self.door.check()
        with self._closing:
            self.door.check()
            hurry.leave(self)
            self._calls.put(call)
        return call.answer

    def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        with self._closing:
            if not self.door.is_shut:
                self.door.shut()
                self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            group = [call]
            while len(group) < GROUP_LIMIT:
                try:
                    following = self._calls.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._calls.put(None)
                    break
                group.append(following)
            # For all of them: whoever hands in a call from here on is served in the next round.
            hurry.arrive(self)
            try:
                with self._use:
                    self._serve(group)
            except BaseException as error:
                # Whatever it was: this thread must live on, and nobody may wait for an answer that never comes.
                for call in group:
                    call.error = call.error or error
                self._answer(group)
        with self._use:
            self._connection.close()

    def _serve(self, group: list[_Call]) -> None:
        for call in group:
            call.read(call.work, self._connection, self._path)
            self._answer([call])

    def _answer(self, group: list[_Call]) -> None:
        """Wake each event loop once, however many of its calls there are."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Call]] = {}
        for call in group:
            if isinstance(call.error, sqlite3.Error):
                call.error = explained(call.error, self._path)
            by_loop.setdefault(call.loop, []).append(call)
        for loop, calls in by_loop.items():
            # A loop that was closed meanwhile has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, calls)


class WriterThread(ConnectionThread):
    """Commits in groups: nobody is answered before the commit, and one failing call takes no other with it.

    What it runs may therefore run more than once, and must leave nothing behind but in the file.
    """

    def __init__(self, path: Path, name: str, on_commit: Callable[[], None]) -> None:
        self._on_commit = on_commit
        super().__init__(path, name)
        # The process may go to another folder; the file stays where it is.
        self._place = path.absolute()
        self._file = identity(self._place)

    def call_lazily(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue `work` that may find nothing to write: it takes the write lock with its first write, if there is one."""
        return self._put(_Call(work, lazily=True))

    def _serve(self, group: list[_Call]) -> None:
        self._commit(group, lazily=all(call.lazily for call in group))

    def _commit(self, group: list[_Call], *, lazily: bool = False) -> None:
        """All in one transaction. When a call fails, nothing has happened, and each half is tried without the other."""
        connection = self._connection
        answered, changed = 0, False
        try:
            patiently(lambda: connection.execute("BEGIN" if lazily else "BEGIN IMMEDIATE"), self._path)
            before = connection.total_changes
            for call in group:
                call.result = call.work(connection)
                answered += 1
            patiently(lambda: connection.execute("COMMIT"), self._path)
            self._check_file()
            changed = connection.total_changes != before
        except BaseException as error:
            undone = connection.in_transaction
            if undone:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if lazily and isinstance(error, sqlite3.Error) and is_busy(error):
                # Somebody else has the lock, or has written since this transaction began to read.
                self._commit(group)
                return
            if undone and answered < len(group) > 1:
                middle = len(group) // 2
                self._commit(group[:middle])
                self._commit(group[middle:])
                return
            for call in group:
                call.error = error
            if is_full(error):
                self._make_room()
        self._answer(group)
        # Those who wait for their own call come first; telling others takes as long as a tenth of a quick commit.
        if changed:
            self._on_commit()

    def _check_file(self) -> None:
        """What was committed to a file that nobody finds any more is lost: nobody may be told that it is kept."""
        if identity(self._place) != self._file:
            msg = (
                f"{self._path} was deleted or replaced while it was in use, so nothing was stored. "
                "Restart every program that uses it, and copy or move the file only while none does."
            )
            raise StoreUnusable(msg)

    def _make_room(self) -> None:
        """The log may hold much that is already in the file, or can go there without making it longer."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class _Call:
    def __init__(self, work: Work, *, lazily: bool = False) -> None:
        self.work, self.lazily = work, lazily
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def read(self, work: Work, connection: sqlite3.Connection, path: Path) -> None:
        """Even a read can meet a lock, while another process repairs what a killed one left behind."""
        try:
            self.result = patiently(lambda: work(connection), path)
        except BaseException as error:
            self.error = error


def _finish(calls: list[_Call]) -> None:
    for call in calls:
        if call.answer.done():
            continue
        if call.error is not None:
            call.answer.set_exception(call.error)
        else:
            call.answer.set_result(call.result)
