"""Opening a file: durable settings, one schema, and a clear word about what cannot be opened."""

import asyncio
import contextlib
import hashlib
import itertools
import sqlite3
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tenure import InvalidURL, StoreError, StoreTooNew, StoreUnusable, Worker, connect, lifecycle
from tenure.stores.sql import migrations
from tenure.stores.sqlite import SqliteStore, connection
from tenure.stores.sqlite.connection import PACKAGE, scripts
from tenure.task import encode

PROGRAM = str(Path(__file__).with_name("programs.py"))


async def test_commits_reach_the_disk_before_they_return(queue):
    """synchronous=FULL (2) in WAL mode syncs the log at every commit."""
    for thread in (queue.store._writer, queue.store._reader):
        pragmas = await thread.call(
            lambda db: [
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "wal_autocheckpoint")
            ]
        )
        assert pragmas == ["wal", 2, 4000]


def test_a_new_file_is_migrated_once_when_eight_processes_open_it_together(path):
    processes = [
        subprocess.Popen([sys.executable, PROGRAM, "open", str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["opened\n"] * 8
    with sqlite3.connect(path) as look:
        versions = look.execute("SELECT version FROM tenure_schema").fetchall()
    look.close()
    assert versions == [(number,) for number in range(1, len(migrations(PACKAGE)) + 1)]


async def test_a_file_of_a_newer_version_is_refused_and_not_touched(path, url):
    async with connect(url) as queue:
        await queue.submit("job", None)
    newer = len(migrations(PACKAGE)) + 1
    with sqlite3.connect(path) as change:
        change.execute("INSERT INTO tenure_schema VALUES (?)", (newer,))
    change.close()
    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(StoreTooNew, match=f"schema version {newer}.*upgrade this installation"):
        await connect(url)
    assert hashlib.sha256(path.read_bytes()).digest() == before


async def test_a_file_of_the_first_version_is_brought_up_to_date_and_its_tasks_run(path, url):
    now = datetime(2026, 1, 28, 12, tzinfo=UTC)
    waiting = lifecycle.submit(now=now, id="waiting", type="greet", available_at=now, input_json=msgspec.Raw(b'"Ada"'))
    claim = {"worker_id": "w1", "lease": timedelta(seconds=30), "policy_max": 25}
    ran = lifecycle.complete(lifecycle.claim(waiting, now=now, **claim), 1, msgspec.Raw(b"1"), now)
    ran = msgspec.structs.replace(ran, id="ran")
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.executescript(scripts()[0])
        for task in (waiting, ran):
            old.execute(
                "INSERT INTO tenure_tasks (id, version, status, queue, type, priority, blocked, attempts, fence,"
                " created_at, available_at, ended_at, record) VALUES (?, ?, ?, 'default', 'greet', 0, 0, 0, ?, 0, 0, ?, ?)",
                (task.id, task.version, task.status, task.fence, task.completed_at and 0, encode(task)),
            )
    async with connect(url) as queue:
        worker = Worker(queue)

        @worker.task("greet")
        def greet(input: str) -> str:
            return f"hello {input}"

        await worker.run(until_idle=True)
        assert (await queue.get("waiting")).output == "hello Ada"
        assert (await queue.get("ran")).history == ran.history


@pytest.mark.parametrize("content", [b"This is a letter, not a database. " * 100, b"PK\x03\x04" + bytes(5000)])
async def test_a_file_that_is_no_database_is_refused_and_not_touched(path, url, content):
    path.write_bytes(content)
    with pytest.raises(StoreUnusable, match="not an SQLite database"):
        await connect(url)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_an_empty_file_becomes_a_store(path, url):
    path.touch()
    async with connect(url) as queue:
        assert (await queue.submit("job", None)).created


async def test_a_folder_is_refused_with_a_hint(tmp_path):
    with pytest.raises(InvalidURL, match=r"is a folder\. Name a file in it"):
        await connect(f"sqlite:///{tmp_path}")


async def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StoreUnusable, match=r"the folder .*nowhere does not exist"):
        await connect(f"sqlite:///{tmp_path}/nowhere/jobs.db")


@pytest.mark.parametrize("case", ["folder", "file", "file and folder"])
async def test_what_may_not_be_written_is_refused_clearly(case):
    """Root may write anywhere, so the attempt is made in a process that gives its rights away."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        folder = Path(above) / "shared"
        folder.mkdir()
        path = folder / "jobs.db"
        if case != "folder":
            async with connect(f"sqlite:///{path}") as queue:
                await queue.submit("job", None)
            path.chmod(0o444)
        folder.chmod(0o777 if case == "file" else 0o555)
        answer = subprocess.run(
            [sys.executable, PROGRAM, "open as nobody", str(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        folder.chmod(0o755)
    kind, _, words = answer.stdout.partition(": ")
    assert kind == "StoreUnusable", answer
    assert str(path) in words
    assert "write" in words


async def test_a_damaged_file_says_how_to_recover_it(path, url):
    async with connect(url) as queue:
        await queue.submit_many([("job", "x" * 1000)] * 500)
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(StoreUnusable, match=r"is damaged .*\.recover"):
        async with connect(url) as queue:
            await queue.list("pending", limit=500)


async def test_a_store_lives_beside_an_applications_own_tables(path, url):
    with sqlite3.connect(path) as own:
        own.execute("CREATE TABLE users (name TEXT)")
        own.execute("INSERT INTO users VALUES ('Ada')")
    own.close()
    async with connect(url) as queue:
        task = await queue.submit("job", None)
    with sqlite3.connect(path) as own:
        assert own.execute("SELECT name FROM users").fetchall() == [("Ada",)]
        own.execute("INSERT INTO users VALUES ('Grace')")
        names = {name for (name,) in own.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    own.close()
    assert all(name == "users" or name.startswith(("tenure_", "sqlite_")) for name in names)
    async with connect(url) as queue:
        assert await queue.get(task.id) is not None


async def test_a_store_works_in_a_file_whose_texts_are_utf_16(path, url):
    with sqlite3.connect(path) as own:
        own.execute("PRAGMA encoding = 'UTF-16'")
        own.execute("CREATE TABLE users (name TEXT)")
    own.close()
    async with connect(url) as queue:
        worker = Worker(queue)

        @worker.task("job")
        async def job(input):
            return input

        tasks = [await queue.submit("job", "ü🦉", ordering_key="k", idempotency_key=f"ü{n}") for n in range(3)]
        async with asyncio.timeout(20):
            assert await worker.run(until_idle=True) == 3
        assert [await queue.result(task.id) for task in tasks] == ["ü🦉"] * 3
        assert (await queue.stats()).damaged == 0


async def test_a_long_transaction_of_the_application_is_waited_for(path, url):
    async with connect(url) as queue:
        own = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        own.execute("BEGIN IMMEDIATE")
        submit = asyncio.create_task(queue.submit("job", None))
        assert await queue.counts() is not None
        assert not submit.done()
        own.execute("COMMIT")
        own.close()
        assert (await submit).created


async def test_a_lock_that_is_never_given_back_is_an_error_that_says_what_to_look_for(path, url, monkeypatch):
    monkeypatch.setattr("tenure.stores.sqlite.connection.LOCK_PATIENCE", 0.05)
    async with connect(url) as queue:
        own = sqlite3.connect(path, isolation_level=None)
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="Look for a program with an open transaction"):
            await queue.submit("job", None)
        own.close()
        assert (await queue.submit("job", None)).created


def test_a_process_that_stood_still_while_it_waited_for_a_lock_tries_again(path, monkeypatch):
    hours = itertools.count(step=3600)
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: next(hours), sleep=lambda _: next(hours)))
    locked = sqlite3.OperationalError("database is locked")
    locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
    answers = iter([locked, locked, locked, "done"])

    def attempt():
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    assert connection.patiently(attempt, path) == "done"


async def test_a_closed_store_says_so(queue):
    await queue.close()
    await queue.close()
    with pytest.raises(StoreError, match=r"is closed\. Connect again"):
        await queue.submit("job", None)
    with pytest.raises(StoreError, match=r"is closed\. Connect again"):
        await queue.get("x")


async def test_giving_up_on_a_call_does_not_harm_the_store(path, url):
    """The writer may be about to answer at the very moment when nobody waits any more."""
    async with connect(url) as queue:
        for _ in range(200):
            call = asyncio.create_task(queue.store.insert([]))
            await asyncio.sleep(0)
            call.cancel()
        assert (await queue.submit("job", None)).created


def test_an_sqlite_that_is_too_old_is_refused_with_both_versions(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.31.1")
    with pytest.raises(StoreUnusable, match=r"SQLite 3\.31\.1; Tenure needs 3\.38\.0 or newer"):
        SqliteStore(path)


@pytest.mark.parametrize("change", ["DROP TABLE tenure_notes", "ALTER TABLE tenure_notes RENAME COLUMN value TO other"])
async def test_a_schema_that_was_changed_by_hand_is_nothing_to_wait_for(path, url, change):
    async with connect(url) as queue:
        with contextlib.closing(sqlite3.connect(path)) as own, own:
            own.execute(change)
        with pytest.raises(StoreUnusable, match=r"no such .*changed by hand"):
            await queue.workers()


async def test_a_value_that_sqlite_does_not_know_is_nothing_to_wait_for(queue):
    with pytest.raises(StoreUnusable, match="Trying again will not help"):
        await queue.store.get([object()])
