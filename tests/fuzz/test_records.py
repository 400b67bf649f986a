"""A harmed record is read, or called damaged; it stops no worker and no other task, on any store."""

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from budget import searched
from harm import harms
from hypothesis import given
from places import PLACES

from tenure import DamagedRecord, TenureError, Worker, connect, lifecycle
from tenure.idempotency import Kind, Reservation, read_reservation
from tenure.payload import NULL
from tenure.retry import RetryPolicy
from tenure.task import Task, decode, encode

NOON = datetime(2026, 1, 28, 12, tzinfo=UTC)
PENDING = lifecycle.submit(now=NOON, id="t1", type="job", available_at=NOON)
RUNNING = lifecycle.claim(PENDING, worker_id="w1", now=NOON, lease=timedelta(seconds=30), policy_max=3)
STEPS = [
    lambda task: lifecycle.claim(task, worker_id="w", now=NOON, lease=timedelta(1), policy_max=3),
    lambda task: lifecycle.complete(task, task.fence, NULL, NOON),
    lambda task: lifecycle.fail(task, task.fence, lifecycle.Failure("x"), RetryPolicy(), NOON, 0.5),
    lambda task: lifecycle.lapse(task, NOON + timedelta(days=1)),
    lambda task: lifecycle.release(task, task.fence, NOON, "x"),
    lambda task: lifecycle.reschedule(task, task.fence, NOON, 1, 1),
    lambda task: lifecycle.expire(task, NOON),
    lambda task: lifecycle.cancel(task, NOON),
    lambda task: lifecycle.stop(task, task.fence, NOON),
    lambda task: lifecycle.retry(task, NOON),
    lambda task: lifecycle.archive(task, NOON),
    lambda task: lifecycle.overdue(task, NOON),
    lambda task: task.to_dict(),
]


@searched
@given(harms())
def test_whatever_is_read_can_be_written_moved_and_shown(harm):
    for record in (encode(PENDING), encode(RUNNING)):
        try:
            task = decode(harm(record), "t1")
        except DamagedRecord:
            continue
        assert isinstance(task, Task)
        assert decode(encode(task)) == task
        for step in STEPS:
            with contextlib.suppress(TenureError):
                step(task)


@pytest.mark.parametrize("field", ["created_at", "available_at", "expires_at", "lease_expires_at", "failed_at"])
def test_a_time_without_a_zone_is_damage(field):
    """It could be compared with no other, and whoever met it would stop."""
    record = json.loads(encode(RUNNING)) | {field: "2026-01-28T12:00:00"}
    with pytest.raises(DamagedRecord, match="timezone"):
        decode(json.dumps(record).encode(), "t1")


@searched
@given(harms())
def test_the_record_of_a_key_is_read_or_called_damaged(harm):
    record = msgspec.json.encode(Reservation(Kind.TaskType, "greet", "k", "sha256:0", "t1", "greet", NOON))
    with contextlib.suppress(DamagedRecord):
        read_reservation(harm(record), "k")


@pytest.mark.parametrize("kind", PLACES)
async def test_a_harmed_record_stops_no_worker_and_no_other_task(kind, request, tmp_path):
    place = PLACES[kind](request, tmp_path)
    async with connect(place.url) as queue:

        async def run(turn, harm):
            tasks = [await queue.submit("job", number, ordering_key=place.key(turn, number)) for number in range(4)]
            late = await queue.submit("job", "late", ttl=0)
            believed = await place.harm(queue.store, tasks[0].id, harm)
            await place.harm(queue.store, late.id, harm)
            ran = []
            worker = Worker(queue, poll=0.01)

            @worker.task("job")
            async def job(input, context):
                ran.append(context.task.id)

            others = {task.id for task in tasks[1:]}
            if believed:
                # It may say that it is due in a thousand years, and then the next of its key waits for it.
                others = {task.id for task in tasks if task.ordering_key != tasks[0].ordering_key}
            async with asyncio.timeout(20):
                # The claim that finds the damage may come before the one that lets the next of its key go.
                for _ in range(3):
                    await worker.run(until_idle=True)
            missing = others - set(ran)
            assert not missing, f"the others did not run beside {harm(encode(PENDING))}"
            await queue.list(limit=1000)
            await queue.stats()

        for turn, harm in enumerate(place.some(harms())):
            await run(turn, harm)


@pytest.mark.parametrize("kind", PLACES)
async def test_a_late_task_that_nobody_can_read_is_told_of_once(kind, request, tmp_path, caplog):
    place = PLACES[kind](request, tmp_path)
    async with connect(place.url) as queue:
        worker = Worker(queue, poll=0.01)

        @worker.task("job")
        async def job(input): ...

        late = await queue.submit("job", ttl=0)
        await place.harm(queue.store, late.id, lambda _: b"{")
        for _ in range(5):
            await queue.submit("job")
            await worker.run(until_idle=True)
        assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1
