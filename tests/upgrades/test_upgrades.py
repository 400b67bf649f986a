"""What an earlier version has stored is read by this one as it was, and goes on."""

import json
import shutil
from pathlib import Path

import msgspec
import psycopg
import pytest
from kept import KEPT
from story import FIELD, NEWER, NOON, dumped, seen

from tenure import TaskStatus, Worker, connect, transfer
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.stores.postgres import PostgresStore
from tenure.stores.postgres.migrating import scripts as postgres_scripts
from tenure.stores.sqlite import SqliteStore
from tenure.stores.sqlite.connection import scripts as sqlite_scripts
from tenure.task import FORMAT, decode

SCHEMAS = sorted(Path(__file__).parent.glob("schema-*"))
FORMATS = sorted(Path(__file__).parent.glob("format-*"))
KINDS = [(folder, kind) for folder in SCHEMAS for kind in ("sqlite", "postgres")] + [
    (folder, kind) for folder in FORMATS for kind in KEPT
]
RUNNABLE = ["running", "retrying", "deadline", "first", "second", "keyed", "slotted"]


@pytest.fixture(params=KINDS, ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def kind(request):
    return request.param


@pytest.fixture
def told(kind):
    return json.loads((kind[0] / "seen.json").read_text())


@pytest.fixture
async def open_store(request, kind, tmp_path):
    """A store of that time, opened by the code of today."""
    folder, name = kind
    opened = []

    def restored():
        admin, server = request.getfixturevalue("postgres_admin"), request.getfixturevalue("postgres_server")
        name = f"upgrade_{folder.name.replace('-', '_')}"
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
        url = f"{server.url.rpartition('/')[0]}/{name}"
        with psycopg.connect(url, autocommit=True) as database:
            database.execute((folder / "postgres.sql").read_text())
        return url

    async def open_it(clock=None):
        if name == "sqlite":
            store = SqliteStore(
                shutil.copy(folder / "tasks.sqlite", tmp_path / "tasks.db"), *([clock] if clock else [])
            )
        elif name == "postgres":
            store = PostgresStore(restored(), clock)
        else:
            store = await KEPT[name](request).opened((folder / f"{name}.json").read_text(), clock)
        opened.append(store)
        await store.open()
        return store

    yield open_it
    for store in opened:
        await store.close()


@pytest.fixture(params=SCHEMAS, ids=lambda folder: folder.name)
def schema(request):
    return request.param


def test_there_is_a_fixture_for_every_schema_and_format():
    schemas = {int(folder.name.removeprefix("schema-")) for folder in SCHEMAS}
    newest = max(len(sqlite_scripts()), len(postgres_scripts("tenure")))
    assert schemas == set(range(1, newest + 1)), "run tests/upgrades/make.py for the new schema"
    formats = {int(folder.name.removeprefix("format-")) for folder in FORMATS}
    assert formats == set(range(1, FORMAT + 1)), "run tests/upgrades/make.py for the new format"


async def test_everything_is_read_as_it_was(open_store, told):
    store = await open_store(lambda: NOON)
    assert json.loads(json.dumps(await seen(store), default=str)) == told


async def test_it_goes_on_where_it_was(open_store):
    queue = Queue(await open_store())
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
    assert (await queue.counts())[TaskStatus.Pending] == 1


@pytest.mark.parametrize("kind", [pair for pair in KINDS if pair[1] in KEPT], indirect=True, ids=lambda pair: pair[1])
async def test_what_only_a_newer_version_knows_survives_every_change(open_store):
    queue = Queue(await open_store())
    worker = Worker(queue)

    @worker.task("greet")
    async def greet(input):
        return "done"

    await queue.retry("failed")
    await queue.archive("completed")
    again = await queue.submit("later", {"for": "completed"}, idempotency_key="newer")
    assert (again.id, again.created) == ("later", False)
    await worker.run(until_idle=True)
    for task in [await queue.get(task_id) for task_id in NEWER]:
        assert task.to_dict()["flavour"] == FIELD["flavour"], task.id
        assert task.id == "completed" or task.output == "done"
    keys = [json.loads(msgspec.json.encode(key)) for piece in await dumped(queue.store) for key in piece.reservations]
    assert [key["flavour"] for key in keys if key["key"] == "newer"] == [FIELD["flavour"]]


async def test_everything_can_be_moved_elsewhere(open_store, told):
    store, target = await open_store(lambda: NOON), MemoryStore(lambda: NOON)
    for piece in await dumped(store):
        assert not piece.damaged
        await target.restore(piece, NOON)
    found = json.loads(json.dumps(await seen(target), default=str))
    assert found == told | {"paused": {}}


async def test_an_export_of_that_time_is_imported(schema):
    told = json.loads((schema / "seen.json").read_text())
    async with connect("memory://") as queue:
        with (schema / "export.jsonl").open("rb") as file:
            assert transfer.check(file) == len(told["tasks"]) - 1, "what ran was left behind"
        with (schema / "export.jsonl").open("rb") as file:
            report = await transfer.take_in(queue, file)
        assert report.complete
        assert (report.tasks, report.stones, report.reservations) == (12, 1, 3)
        listed = {task.id: task.to_dict() for task in (await queue.list(limit=100)).tasks}
        assert json.loads(json.dumps(listed)) == {
            name: task for name, task in told["tasks"].items() if name != "running"
        }


def test_every_record_of_that_time_is_read(schema):
    records = [json.loads(line).get("task") for line in (schema / "export.jsonl").read_text().splitlines()]
    tasks = [decode(json.dumps(record).encode()) for record in records if record]
    assert {str(task.status) for task in tasks} == {
        "pending", "completed", "failed", "cancelled", "expired", "archived"
    }  # fmt: skip
