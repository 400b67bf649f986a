"""What an earlier version has stored is read by this one as it was, and goes on."""

import json
import shutil
from pathlib import Path

import psycopg
import pytest
from story import NOON, seen

from tenure import TaskStatus, Worker, connect, transfer
from tenure.stores.postgres import PostgresStore
from tenure.stores.postgres.migrating import scripts as postgres_scripts
from tenure.stores.sqlite import SqliteStore
from tenure.stores.sqlite.connection import scripts as sqlite_scripts
from tenure.task import decode

FOLDERS = sorted(Path(__file__).parent.glob("schema-*"))
RUNNABLE = ["running", "retrying", "deadline", "first", "second", "keyed", "slotted"]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request):
    return request.param


@pytest.fixture
def told(folder):
    return json.loads((folder / "seen.json").read_text())


@pytest.fixture
def address(request, folder, tmp_path):
    """A store of that time, behind an address of today."""

    def open_(kind):
        if kind == "sqlite":
            shutil.copy(folder / "tasks.sqlite", tmp_path / "tasks.db")
            return f"sqlite:///{tmp_path}/tasks.db"
        admin, server = request.getfixturevalue("postgres_admin"), request.getfixturevalue("postgres_server")
        name = f"upgrade_{folder.name.replace('-', '_')}"
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
        url = f"{server.url.rpartition('/')[0]}/{name}"
        with psycopg.connect(url, autocommit=True) as restored:
            restored.execute((folder / "postgres.sql").read_text())
        return url

    return open_


def opened(url):
    kind = SqliteStore if url.startswith("sqlite") else PostgresStore
    return kind(url.removeprefix("sqlite:///"), lambda: NOON)


def test_there_is_a_fixture_for_every_schema():
    versions = {int(folder.name.removeprefix("schema-")) for folder in FOLDERS}
    newest = max(len(sqlite_scripts()), len(postgres_scripts("tenure")))
    assert versions == set(range(1, newest + 1)), "run tests/upgrades/make.py for the new schema"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_everything_is_read_as_it_was(kind, address, told):
    store = opened(address(kind))
    await store.open()
    try:
        now = json.loads(json.dumps(await seen(store), default=str))
    finally:
        await store.close()
    assert now == told


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_it_goes_on_where_it_was(kind, address):
    async with connect(address(kind)) as queue:
        worker, ran = Worker(queue), []

        @worker.task("greet")
        async def greet(input, context):
            ran.append(context.task.id)

        again = await queue.submit("greet", {"key": 1}, idempotency_key="key")
        assert (again.id, again.created) == ("keyed", False)
        pruned = await queue.submit("greet", {"n": 0}, idempotency_key="pruned", task_id="pruned")
        await worker.run(until_idle=True)
        assert sorted(ran) == sorted([*RUNNABLE, "scheduled", *([pruned.id] if pruned.created else [])])
        assert ran.index("first") < ran.index("second")
        assert (await queue.get("running")).attempts == 1, "the claim of that time has lapsed"
        assert await queue.paused() == {"frozen": "for the fixture"}
        assert (await queue.retry("failed")).status is TaskStatus.Pending


async def test_an_export_of_that_time_is_imported(folder, told):
    async with connect("memory://") as queue:
        with (folder / "export.jsonl").open("rb") as file:
            assert transfer.check(file) == len(told["tasks"]) - 1, "what ran was left behind"
        with (folder / "export.jsonl").open("rb") as file:
            report = await transfer.take_in(queue, file)
        assert report.complete
        assert (report.tasks, report.stones, report.reservations) == (12, 1, 3)
        listed = {task.id: task.to_dict() for task in (await queue.list(limit=100)).tasks}
        assert json.loads(json.dumps(listed)) == {
            name: task for name, task in told["tasks"].items() if name != "running"
        }


def test_every_record_of_that_time_is_read(folder):
    records = [json.loads(line).get("task") for line in (folder / "export.jsonl").read_text().splitlines()]
    tasks = [decode(json.dumps(record).encode()) for record in records if record]
    assert {str(task.status) for task in tasks} == {
        "pending", "completed", "failed", "cancelled", "expired", "archived"
    }  # fmt: skip
