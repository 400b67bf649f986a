"""Rules 18 to 20 and 24: who gets which task, and in which order."""

import asyncio
from datetime import timedelta

import pytest

from tenure import lifecycle
from tenure.payload import NULL
from tenure.retry import RetryPolicy
from tenure.stores.base import Change, Want
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    LEASE,
    SECOND,
    ask,
    brought_to,
    claim,
    claim_one,
    complete,
    everything,
    fail,
    ids,
    read,
    release,
)


async def test_a_claim_is_exactly_what_the_rule_says(queue, store, clock):
    task = await queue.submit("greet", {"name": "Ada"}, max_attempts=3, tags=["x"], ttl=60)
    clock.advance(1)
    held = await claim_one(store, by="w7", limit=5)
    expected = lifecycle.claim(task, worker_id="w7", now=clock(), lease=LEASE, policy_max=5, fence=held.fence)
    assert held == expected
    assert await read(store, task.id) == expected
    assert (held.limit, held.lease_expires_at) == (3, clock() + LEASE)
    assert held.fence > 0


async def test_an_empty_store_gives_nothing(store):
    answer = await ask(store)
    assert (list(answer.tasks), list(answer.overdue), answer.next_due) == ([], [], None)


async def test_only_the_wanted_types_are_claimed(queue, store):
    await queue.submit("other")
    mine = await queue.submit("greet")
    assert ids(await claim(store, 10)) == [mine.id]


async def test_only_the_wanted_queues_are_claimed(queue, store):
    await queue.submit("greet", queue="elsewhere")
    mine = await queue.submit("greet", queue="mail")
    assert ids(await claim(store, 10, queues=["mail"])) == [mine.id]


async def test_no_more_are_claimed_than_were_asked_for(queue_of_part, part):
    await queue_of_part.submit_many([("greet", number) for number in range(10)])
    assert [task.input for task in await claim(part, 3)] == [0, 1, 2]
    assert [task.input for task in await claim(part, 4)] == [3, 4, 5, 6]
    assert [task.input for task in await claim(part, 100)] == [7, 8, 9]
    assert await claim(part, 100) == []


async def test_a_claim_of_none_takes_none_and_says_when_the_next_is_due(queue, store):
    now = await queue.submit("greet")
    later = await queue.submit("greet", delay=60)
    answer = await ask(store, 0)
    assert (list(answer.tasks), answer.next_due) == ([], later.available_at)
    assert (await read(store, now.id)).status is TaskStatus.Pending


async def test_the_answer_says_when_the_next_wanted_task_is_due(queue, store, clock):
    await queue.submit("other", delay=1)
    await queue.submit("greet", delay=2, queue="elsewhere")
    await queue.submit("greet", delay=9)
    soonest = await queue.submit("greet", delay=5, priority=-3)
    assert (await ask(store)).next_due == soonest.available_at
    assert (await ask(store, queues=["elsewhere"])).next_due == clock() + 2 * SECOND
    assert (await ask(store, types=["unknown"])).next_due is None


async def test_tasks_come_by_priority_then_due_time_then_submit_order_across_types_and_queues(
    queue_of_part, part, clock
):
    def submit(name, type_, lane, priority, due):
        when = clock() + timedelta(seconds=due)
        return queue_of_part.submit(type_, name, queue=lane, priority=priority, schedule_at=when)

    await submit("g", "a", "one", 0, 3)
    await submit("f", "b", "two", 0, 2)
    await submit("h", "b", "one", 0, 3)
    await submit("d", "a", "two", 5, 4)
    await submit("e", "b", "one", 0, 1)
    await submit("c", "b", "two", 5, 2)
    await submit("b", "a", "one", 9, 5)
    await submit("i", "a", "one", -1, 0)
    await submit("a", "b", "two", 32_767, 5)
    await submit("j", "a", "two", -32_767, 0)
    clock.advance(10)
    held = await claim(part, 4, types=["a", "b"], queues=["two", "one"])
    held += await claim(part, 100, types=["b", "a"], queues=["one", "two"])
    assert "".join(task.input for task in held) == "abcdefghij"


async def test_they_do_so_too_when_each_has_a_priority_of_its_own(queue_of_part, part, clock):
    levels = list(range(-75, 75))
    for type_, delay, numbers in (("a", 0, levels[::2]), ("b", 0, levels[80:]), ("b", 3600, levels[:80])):
        await queue_of_part.submit_many([(type_, n, {"priority": n, "delay": delay}) for n in numbers])
    held: list[int] = []
    while tasks := await claim(part, 40, types=["a", "b"]):
        held += [task.input for task in tasks]
    assert held == sorted([*levels[::2], *levels[80:]], reverse=True)
    assert (await ask(part, types=["a", "b"])).next_due == clock() + 3600 * SECOND


async def test_a_task_that_comes_due_by_a_retry_takes_its_turn_by_that_time(queue, store, clock):
    await queue.submit("greet", "first")
    await fail(store, await claim_one(store))
    clock.advance(0.1)
    await queue.submit("greet", "second")
    clock.advance(10)
    await queue.submit("greet", "third")
    assert [task.input for task in await claim(store, 3)] == ["second", "first", "third"]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_thousand_others_ahead_never_hide_a_runnable_task(queue, store, clock, count):
    hidden = {"priority": 100}
    await queue.submit_many([("foreign", None) for _ in range(1000)], **hidden)
    await queue.submit_many([("greet", None) for _ in range(1000)], queue="elsewhere", **hidden)
    await queue.submit_many([("greet", None) for _ in range(1000)], delay=3600, **hidden)
    await queue.submit_many([("ended", None) for _ in range(1000)], **hidden)
    await store.swap([_ending(task, clock()) for task in await claim(store, 1000, types=["ended"])])
    mine = await queue.submit("greet", priority=-100)
    assert ids(await claim(store, count, types=["greet", "ended"])) == [mine.id]


def _ending(task, now):
    return Change(task, lifecycle.complete(task, task.fence, NULL, now))


async def test_a_thousand_expired_and_running_tasks_ahead_never_hide_a_runnable_one(queue, store, clock):
    await queue.submit_many([("greet", "running") for _ in range(1000)], priority=100)
    assert len(await claim(store, 1000)) == 1000
    await queue.submit_many([("greet", "late") for _ in range(1000)], priority=100, ttl=1)
    clock.advance(1)
    mine = await queue.submit("greet", priority=-100)
    found = []
    while not found:
        answer = await ask(store, 1)
        found = ids(answer.tasks)
        assert found or answer.overdue, "neither a task nor progress towards one"
    assert found == [mine.id]


async def test_each_of_fifty_claimers_at_once_wins_a_task_of_its_own(open_store, clock, queue):
    stores = [await open_store(clock) for _ in range(5)]
    tasks = await queue.submit_many([("greet", number) for number in range(30)])
    answers = await asyncio.gather(*(claim(stores[number % 5], by=f"w{number}") for number in range(50)))
    winners = [task for answer in answers for task in answer]
    assert sorted(ids(winners)) == sorted(ids(tasks))
    assert len({task.worker_id for task in winners}) == 30
    stored = {task.id: task for task in await everything(stores[0])}
    assert all(stored[task.id] == task for task in winners)


async def test_of_fifty_claimers_of_one_task_one_wins(open_store, clock, queue):
    stores = [await open_store(clock) for _ in range(5)]
    task = await queue.submit("greet")
    answers = await asyncio.gather(*(claim(stores[number % 5], 10, by=f"w{number}") for number in range(50)))
    (winner,) = [task for answer in answers for task in answer]
    assert winner.id == task.id
    assert (await read(stores[0], task.id)).worker_id == winner.worker_id


async def test_the_fence_grows_with_every_claim(queue, store, clock):
    await queue.submit("greet")
    fences = []
    for _ in range(5):
        held = await claim_one(store)
        fences.append(held.fence)
        await fail(store, held)
        clock.advance(60)
    assert fences == sorted(set(fences))


async def test_the_fence_grows_on_through_a_retry_by_an_operator(queue, store):
    await queue.submit("greet")
    first = await claim_one(store)
    await fail(store, first, permanent=True)
    await queue.retry(first.id)
    assert (await claim_one(store)).fence > first.fence


@pytest.mark.parametrize(
    ("job", "policy", "limit"), [(0, 25, 25), (5, 25, 5), (20, 10, 10), (5, 0, 5), (0, 0, 1), (7, None, 1)]
)
async def test_the_limit_of_executions_is_stored_by_the_first_claim_and_holds_for_later_workers(
    queue, store, job, policy, limit
):
    await queue.submit("greet", max_attempts=job)
    held = await claim_one(store, limit=policy)
    assert held.limit == limit
    await release(store, held)
    assert (await claim_one(store, limit=99)).limit == limit


async def test_the_policy_of_a_task_decides_its_limit_before_that_of_the_worker(queue, store):
    await queue.submit("greet", retry=RetryPolicy(max_attempts=2))
    assert (await claim_one(store, limit=25)).limit == 2


async def test_each_type_brings_its_own_limit(queue, store):
    await queue.submit("a")
    await queue.submit("b")
    held = (await store.claim(Want("w1", ("default",), {"a": 3, "b": None}, 2, LEASE))).tasks
    assert {task.type: task.limit for task in held} == {"a": 3, "b": 1}


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(queue, store):
    task = await queue.submit("greet")
    elsewhere = await queue.submit("greet", queue="mail")
    await queue.pause("default", "maintenance", by="ada")
    assert await queue.paused() == {"default": "maintenance"}
    answer = await ask(store, 10, queues=["default", "mail"])
    assert ids(answer.tasks) == [elsewhere.id]
    assert (await ask(store, 10)).next_due is None
    await queue.resume("default")
    assert ids(await claim(store, 10)) == [task.id]
    assert await queue.paused() == {}


async def test_what_runs_in_a_paused_queue_runs_on(queue, store):
    held = await brought_to(queue, "running")
    await queue.pause()
    assert (await complete(store, held)).status is TaskStatus.Completed


async def test_a_pause_with_an_end_ends_by_itself_at_that_moment(queue, store, clock):
    task = await queue.submit("greet")
    await queue.pause(resume_after=10)
    clock.advance(timedelta(seconds=10) - timedelta(microseconds=1))
    assert await claim(store) == []
    clock.advance(timedelta(microseconds=1))
    assert ids(await claim(store)) == [task.id]


@pytest.mark.parametrize("status", [status for status in TaskStatus if status is not TaskStatus.Pending])
async def test_nothing_but_pending_tasks_is_claimed(queue, store, status):
    await brought_to(queue, status)
    assert await claim(store, 10) == []
