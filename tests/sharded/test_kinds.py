"""Shards of every kind, alike and mixed: four files, two databases, two clusters, and one of each."""

import asyncio
import uuid

import psycopg
import pytest
from shard_steps import counted, work_off

from tenure import Worker, connect
from tenure.stores.postgres.migrating import scripts
from tenure.task import TaskStatus
from tenure.testing import etcd
from tenure.testing.checker import check
from tenure.testing.conformance.steps import everything, ids

TASKS = 120


@pytest.fixture(scope="session")
def second_database(postgres_server):
    """Another database of the same server."""
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE second")
    url = f"{postgres_server.url.rpartition('/')[0]}/second"
    with psycopg.connect(url, autocommit=True) as admin:
        for script in scripts("tenure"):
            admin.execute(script)
    return url


@pytest.fixture
def two_databases(postgres_url, second_database):
    tables = ("tasks", "ended", "turns", "tags", "counts", "count_changes", "reservations", "stones", "notes")
    with psycopg.connect(second_database, autocommit=True) as admin:
        for table in tables:
            admin.execute(f"DELETE FROM tenure.{table}")
    return [postgres_url, second_database]


@pytest.fixture(scope="session")
def second_cluster():
    """Another cluster of etcd."""
    with etcd.EtcdCluster(1, *etcd.FAST) as cluster:
        yield cluster


@pytest.fixture
def two_clusters(etcd_url, second_cluster):
    return [etcd_url, second_cluster.url(f"tests/{uuid.uuid4().hex}")]


@pytest.fixture
def one_of_each(files, postgres_url, etcd_url, dynamodb_url, s3_url):
    return [files[0], postgres_url, etcd_url, dynamodb_url, s3_url, "memory://"]


@pytest.fixture(params=["files", "two_databases", "two_clusters", "one_of_each"])
def urls(request):
    return request.getfixturevalue(request.param)


async def test_a_queue_of_such_shards_does_all_that_a_queue_does(urls):
    async with connect(urls) as queue:
        store = queue.store
        batch = [("greet", number, {"idempotency_key": f"k{number}"} if number % 3 else {}) for number in range(TASKS)]
        tasks = await queue.submit_many(batch)
        line = await queue.submit_many([("line", number) for number in range(6)], ordering_key="line")
        crossing = [
            {"idempotency_key": f"c{number}", "task_id": f"mine-{number}", "ordering_key": f"o{number}"}
            for number in range(8)
        ]
        tasks += [await queue.submit("greet", None, **options) for options in crossing]
        assert all(await counted(store))
        assert await queue.get(tasks[7].id) == tasks[7]
        assert [(await queue.get(f"mine-{number}")).ordering_key for number in range(8)] == [f"o{n}" for n in range(8)]

        repeats = [await queue.submit("greet", None, **options) for options in crossing]
        repeats += [await queue.submit("greet", None, idempotency_key=f"c{number}") for number in range(8)]
        repeats += [await queue.submit("greet", number, idempotency_key=f"k{number}") for number in (1, 2, 4, 5)]
        assert not any(task.created for task in repeats)

        unwanted = await queue.submit("greet", task_id="unwanted", delay=60)
        assert (await queue.cancel(unwanted.id, "not needed")).status is TaskStatus.Cancelled
        await queue.pause("mail", "holiday")
        assert await queue.paused() == {"mail": "holiday"}

        ran = await work_off(queue, "greet", "line", concurrency=20)
        assert all(ran.values())
        assert sum(ran.values()) == len(tasks) + len(line)
        stored = await everything(store, page=50)
        assert check(stored, ids([*tasks, *line, unwanted]), all_ended=True) == []
        in_turn = sorted((task for task in stored if task.type == "line"), key=lambda task: task.started_at)
        assert [task.input for task in in_turn] == list(range(6))
        assert (await queue.counts())[TaskStatus.Completed] == len(tasks) + len(line)


async def test_a_waiting_worker_wakes_up_whichever_shard_has_news(urls):
    async with connect(urls) as queue:
        worker = Worker(queue, poll=30)
        ran, idle = [], asyncio.Event()

        @worker.task("greet")
        async def greet(input):
            ran.append(input)
            idle.set()

        running = asyncio.ensure_future(worker.run())
        for number in range(2 * len(urls)):
            idle.clear()
            await queue.submit("greet", number)
            async with asyncio.timeout(25):
                await idle.wait()
        worker.stop()
        await running
        assert ran == list(range(2 * len(urls)))


async def test_a_handler_writes_in_the_database_of_its_own_task(two_databases):
    async with connect(two_databases) as queue:
        worker = Worker(queue)
        seen = {}

        @worker.task("greet")
        async def greet(input, context):
            async with context.transaction() as connection:
                seen[input] = await connection.fetchval("SELECT current_database()")

        tasks = await queue.submit_many([("greet", number) for number in range(12)])
        await worker.run(until_idle=True)
        names = ["postgres", "second"]
        assert {task.input: names[queue.store.part_of(task).number] for task in tasks} == seen
        assert set(seen.values()) == set(names)
