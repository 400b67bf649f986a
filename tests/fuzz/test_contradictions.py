"""A record that can be read, but is not what led to it, stops no other task of its ordering key, on any store."""

import asyncio
import json
from datetime import timedelta

import pytest
from places import PLACES

from tenure import Worker, connect
from tenure.stores.base import Want


def says(**fields):
    """Harm that changes fields, or takes them away (None)."""

    def harm(record):
        changed = json.loads(record) | fields
        return json.dumps({field: value for field, value in changed.items() if value is not None}).encode()

    return harm


ELSEWHERE = {
    "in another queue": says(queue="other"),
    "of another type": says(task_type="other"),
    "not due yet": says(available_at="2901-01-01T00:00:00Z"),
}
"""Where nothing stands beside a record, the next of its key waits for it there, as it should."""
HARMS = ELSEWHERE | {
    "cut off": lambda record: record[:20],
    "without a key": says(ordering_key=None),
    "of another key": says(ordering_key="other"),
    "of another priority": says(priority=7),
    "of another task": says(id="other"),
    "ended": says(status="completed"),
    "running": says(status="running"),
    "late": says(expires_at="2001-01-01T00:00:00Z"),
    "without a deadline": says(expires_at=None),
    "of no version": says(version=0),
    "of another version": says(version=7),
    "of a version beyond all columns": says(version=2**63 - 1),
    "of more attempts than a column holds": says(attempts=2**63 - 1),
    "of a fence beyond all columns": says(fence=2**63),
}


def is_believed(place, harm, when):
    """A claim on etcd does not know the lane of its task; S3 has nothing beside the record at all."""
    return harm in ELSEWHERE and (place.believes or (place.believes_running and when == "running"))


@pytest.mark.parametrize("when", ["pending", "late", "running"])
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", PLACES)
async def test_the_next_of_its_key_runs(kind, harm, when, request, tmp_path):
    place = PLACES[kind](request, tmp_path)
    ran = []
    async with connect(place.url) as queue, asyncio.timeout(60):
        first = await queue.submit("job", ordering_key="k", ttl=0 if when == "late" else None)
        second = await queue.submit("job", ordering_key="k")
        if when == "running":
            lost = await queue.store.claim(Want("gone", ("default",), {"job": 3}, 1, timedelta(0)))
            assert [task.id for task in lost.tasks] == [first.id]
        await place.harm(queue.store, first.id, HARMS[harm])
        worker = Worker(queue, poll=0.01)

        @worker.task("job")
        async def job(input, context):
            ran.append(context.task.id)

        for _ in range(3):
            await worker.run(until_idle=True)
        assert second.id in ran or is_believed(place, harm, when)
        assert (await queue.get(second.id)).status == ("completed" if second.id in ran else "pending")


@pytest.mark.parametrize("kind", PLACES)
async def test_what_is_left_of_late_tasks_that_nobody_can_read_is_in_nobodys_way(kind, request, tmp_path):
    place = PLACES[kind](request, tmp_path)
    ran = []
    async with connect(place.url) as queue, asyncio.timeout(60):
        late = [await queue.submit("job", ttl=0) for _ in range(10)]
        for task in late:
            await place.harm(queue.store, task.id, lambda _: b"{")
        sound = [await queue.submit("job") for _ in range(3)]
        for task in sound:
            found = await queue.store.claim(Want("w", ("default",), {"job": 3}, 1, timedelta(60)))
            ran += [task.id for task in found.tasks]
        assert ran == [task.id for task in sound]
