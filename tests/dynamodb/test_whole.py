"""From end to end, on the server's own clock: workers, the command line, and records that cannot be read."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from tenure import PermanentError, Worker, connect
from tenure.cli.program import invoke
from tenure.errors import StoreUnavailable, StoreUnusable
from tenure.queue import Queue
from tenure.stores.dynamodb import DynamoStore
from tenure.task import TaskStatus
from tenure.testing.aws import Dynoxide
from tenure.testing.conformance.steps import brought_to, claim, claim_one, complete, everything, ids


async def test_a_worker_runs_what_was_submitted(url):
    async with connect(url) as queue:
        worker = Worker(queue, concurrency=5)

        @worker.task("double")
        async def double(input: int) -> int:
            if input == 7:
                raise PermanentError(input)
            return input * 2

        tasks = await queue.submit_many([("double", number) for number in range(20)])
        await worker.run(until_idle=True)
        assert await queue.result(tasks[4].id) == 8
        counts = await queue.counts()
        assert (counts[TaskStatus.Completed], counts[TaskStatus.Failed], counts[TaskStatus.Pending]) == (19, 1, 0)
        assert (await queue.stats()).counts["failed"] == 1


async def test_the_time_is_the_servers_and_costs_no_requests(url):
    async with connect(url) as queue:
        asked = sum(queue.store.client.counts.values())
        times = [await queue.now() for _ in range(100)]
        assert sum(queue.store.client.counts.values()) == asked
        assert times == sorted(times)
        assert abs(datetime.now(UTC) - times[-1]) < timedelta(seconds=60)


async def test_a_program_whose_clock_is_an_hour_off_changes_nothing(url, monkeypatch):
    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr("tenure.stores.aws.client.datetime", Wrong)
    async with connect(url) as queue:
        task = await queue.submit("greet")
        assert abs(datetime.now(UTC) - task.created_at) < timedelta(seconds=60)
        assert ids(await claim(queue.store)) == [task.id]


async def test_a_damaged_record_is_set_aside_and_hides_nobody(store, queue):
    bad, good = await queue.submit("greet", "bad"), await queue.submit("greet", "good")
    parts = store._known
    await store.table.write(store.table.update(parts.keys.task(bad.id), {"record": "{ not JSON"}))
    assert ids(await claim(store, 5)) == [good.id]
    assert [note.key for note in await store.notes("damaged")] == [bad.id]
    assert ids(await everything(store)) == [good.id]
    assert await queue.counts() == {status: int(status is TaskStatus.Running) for status in TaskStatus}


async def test_a_store_that_goes_away_is_unavailable_and_comes_back(aws_credentials):
    with Dynoxide(durable=True) as server:
        store = DynamoStore(f"dynamodb://tasks?endpoint={server.endpoint}&create=true")
        store.client.pauses = (0.0, 0.0)
        await store.open()
        task = await Queue(store).submit("greet")
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await Queue(store).submit("greet")
        await asyncio.to_thread(server.start)
        assert ids(await claim(store)) == [task.id]
        await store.close()


async def test_an_output_that_no_item_can_hold_is_refused_by_name(store, queue):
    await queue.submit("greet")
    held = await claim_one(store)
    with pytest.raises(StoreUnusable, match="400 KB"):
        await complete(store, held, os.urandom(500_000).hex())
    assert (await queue.get(held.id)).status is TaskStatus.Running


def test_the_command_line_prints_and_makes_the_table(server, capsys, tmp_path):
    url = f"dynamodb://made-by-hand?endpoint={server.endpoint}"
    assert invoke(["table", "--url", url]) == 0
    assert "MadeByHand" in json.loads(capsys.readouterr().out)["Resources"]
    assert invoke(["table", "--url", url, "--for", "terraform"]) == 0
    assert "aws_dynamodb_table" in capsys.readouterr().out
    assert invoke(["submit", "-t", "greet", "--url", url]) != 0
    assert "create=true" in capsys.readouterr().err
    assert invoke(["table", "--url", url, "--create", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"table": "made-by-hand", "ready": True}
    assert invoke(["submit", "-t", "greet", "--url", url]) == 0
    assert invoke(["doctor", "--url", url]) in (0, 1)
    said = capsys.readouterr().out
    assert "on, by the attribute ttl" in said
    assert invoke(["table", "--url", f"sqlite:///{tmp_path}/x.db"]) != 0
    assert "Traceback" not in capsys.readouterr().err


async def test_pruned_tasks_are_found_by_their_ends_and_leave_the_counts(store, queue, clock):
    old = [await brought_to(queue, "completed") for _ in range(3)]
    clock.advance(60)
    new = await brought_to(queue, "completed")
    assert await store.prune({TaskStatus.Completed: clock() - timedelta(seconds=30)}, clock(), 2) == 2
    assert await store.prune({TaskStatus.Completed: clock() - timedelta(seconds=30)}, clock(), 2) == 1
    assert ids(await everything(store)) == [new.id]
    assert (await queue.counts())[TaskStatus.Completed] == 1
    assert await store.get([task.id for task in old]) == [None] * 3
