"""What an operator can do."""

from datetime import timedelta

import pytest

from tenure import CannotArchive, CannotCancel, CannotExpire, CannotRetry, InvalidInput, TaskNotFound, TaskStatus
from tenure.stores.base import Want


async def test_cancel_many_says_what_could_not_be_cancelled_and_why(queue, run):
    done = await queue.submit("job", 1)
    await run()
    one, two = await queue.submit_many([("job", 1), ("job", 2)])
    result = await queue.cancel_many([one.id, done.id, "nobody", two.id], reason="cleaning", by="ada")
    assert [task.id for task in result.cancelled] == [one.id, two.id]
    assert {name: type(error) for name, error in result.refused.items()} == {
        done.id: CannotCancel,
        "nobody": TaskNotFound,
    }
    assert (await queue.get(one.id)).cancelled_by == "ada"


async def test_cancel_by_type_reaches_every_open_task_of_the_type_and_no_other(queue):
    await queue.submit_many([("job", number) for number in range(1500)])
    await queue.submit("job", "later", delay=3600)
    running = await queue.submit("job", "running", priority=1)
    await queue.store.claim(Want("w1", ("default",), {"job": 1}, 1, timedelta(seconds=30)))
    other = await queue.submit("other", None)
    result = await queue.cancel_by_type("job", reason="recalled")
    assert (len(result.cancelled), result.refused) == (1502, {})
    assert (await queue.counts())[TaskStatus.Cancelled] == 1501
    assert (await queue.get(running.id)).cancel_requested
    assert (await queue.get(other.id)).status is TaskStatus.Pending


async def test_cancelling_twice_is_fine(queue):
    task = await queue.submit("job", 1)
    first = await queue.cancel(task.id, reason="once")
    assert await queue.cancel(task.id, reason="twice") == first


@pytest.mark.parametrize("name", ["retry", "replay", "requeue"])
async def test_a_dead_letter_gets_another_life_under_each_name(queue, run, name):
    task = await queue.submit("job", "broken")
    await run()
    again = await getattr(queue, name)(task.id, by="ada")
    assert (again.status, again.attempts) == (TaskStatus.Pending, 0)
    assert await run() == 1
    assert (await queue.get(task.id)).attempts == 1


async def test_attempts_can_be_kept_by_a_retry(queue, run):
    task = await queue.submit("job", "broken")
    await run()
    assert (await queue.retry(task.id, keep_attempts=True)).attempts == 1


async def test_what_is_not_possible_is_refused_with_the_reason(queue, run):
    done = await queue.submit("job", 1)
    await run()
    pending = await queue.submit("job", 1, delay=60)
    for call, error, task in (
        (queue.cancel, CannotCancel, done),
        (queue.retry, CannotRetry, done),
        (queue.mark_expired, CannotExpire, done),
        (queue.archive, CannotArchive, pending),
        (queue.retry, CannotRetry, pending),
    ):
        with pytest.raises(error, match=rf"task {task.id}: it is \w+\. \w+"):
            await call(task.id)


async def test_a_pending_task_can_be_expired_by_hand(queue):
    task = await queue.submit("job", 1, delay=60)
    expired = await queue.mark_expired(task.id)
    assert (expired.status, expired.attempts) == (TaskStatus.Expired, 0)
    assert (await queue.list("dlq")).tasks == []


async def test_a_paused_queue_is_worked_again_after_its_time_or_when_resumed(queue, run, clock):
    await queue.submit("job", 1)
    await queue.submit("job", 2, queue="other")
    await queue.pause("default", "maintenance", resume_after=600)
    assert await queue.paused() == {"default": "maintenance"}
    assert (await queue.stats()).paused == {"default": "maintenance"}
    assert await run(queues=("default", "other")) == 1
    clock.advance(600)
    assert await queue.paused() == {}
    assert await run() == 1

    await queue.submit("job", 3)
    await queue.pause()
    clock.advance(timedelta(days=365))
    assert await run() == 0
    await queue.resume()
    await queue.resume()
    assert await run() == 1


@pytest.mark.parametrize("time", [-1, "soon", 10**12])
async def test_a_pause_lasts_for_a_time_that_a_calendar_holds(queue, time):
    with pytest.raises(InvalidInput, match="resume_after"):
        await queue.pause(resume_after=time)
    assert await queue.paused() == {}
