"""Listings and counts: every filter before the limit, pages that stay in step, figures that agree."""

import contextlib
import re
from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from tenure.errors import InvalidInput
from tenure.stores.base import Due, Query, Renewal
from tenure.task import Progress, TaskStatus
from tenure.testing.conformance.steps import (
    LEASE,
    SECOND,
    brought_to,
    claim,
    claim_one,
    complete,
    everything,
    fail,
    ids,
    renew,
)

WORDS = {
    "pending": TaskStatus.Pending,
    "running": TaskStatus.Running,
    "completed": TaskStatus.Completed,
    "failed": TaskStatus.Failed,
    "cancelled": TaskStatus.Cancelled,
    "expired": TaskStatus.Expired,
    "archived": TaskStatus.Archived,
    "in_progress": TaskStatus.Running,
    "claimed": TaskStatus.Running,
    "inflight": TaskStatus.Running,
    "dead_letter": TaskStatus.Failed,
    "dlq": TaskStatus.Failed,
    "dead": TaskStatus.Failed,
    "done": TaskStatus.Completed,
}


async def pages(queue, limit, **filters):
    """All pages of a listing."""
    found, cursor = [], None
    while True:
        page = await queue.list(limit=limit, cursor=cursor, **filters)
        assert len(page.tasks) <= limit
        found.append(page.tasks)
        if (cursor := page.cursor) is None:
            return found


async def test_an_empty_store_lists_nothing(queue):
    page = await queue.list()
    assert (page.tasks, page.cursor) == ([], None)


async def test_tasks_are_listed_latest_submit_first(queue, store):
    tasks = await queue.submit_many([("greet", number) for number in range(5)])
    assert ids((await queue.list()).tasks) == ids(reversed(tasks))
    assert ids((await store.find(Query(oldest=True))).tasks) == ids(tasks)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired", "archived"])
async def test_ended_tasks_are_listed_latest_end_first(queue, store, clock, status):
    first, second, third = [await brought_to(queue, status, priority=number) for number in range(3)]
    for later in (second, first):
        if status in ("failed", "cancelled"):
            clock.advance(1)
            await queue.retry(later.id)
            if status == "cancelled":
                await queue.cancel(later.id)
            else:
                await fail(store, await claim_one(store), permanent=True)
    expected = [first, second, third] if status in ("failed", "cancelled") else [third, second, first]
    assert ids((await queue.list(status)).tasks) == ids(expected)
    assert ids((await store.find(Query(status=TaskStatus(status), oldest=True))).tasks) == ids(reversed(expected))


@pytest.mark.parametrize("word", WORDS)
async def test_every_word_for_a_status_is_understood(queue, word):
    for status in TaskStatus:
        await brought_to(queue, status, status.value)
    assert [task.status for task in (await queue.list(word)).tasks] == [WORDS[word]]
    assert [task.status for task in (await queue.list(word.upper().replace("_", "-"))).tasks] == [WORDS[word]]


async def test_the_views_of_pending(queue, store, clock):
    ready = await queue.submit("other")
    scheduled = await queue.submit("greet", delay=100)
    await queue.submit("greet", priority=5)
    await fail(store, await claim_one(store))
    backing_off = (await queue.list("retrying")).tasks[0]
    assert backing_off.attempts == 1
    assert ids((await queue.list("ready")).tasks) == [ready.id]
    assert set(ids((await queue.list("scheduled")).tasks)) == {scheduled.id, backing_off.id}
    clock.advance(0.2)
    assert set(ids((await queue.list("ready")).tasks)) == {ready.id, backing_off.id}
    assert ids((await queue.list("scheduled")).tasks) == [scheduled.id]


async def test_an_unknown_word_is_refused_with_the_list_of_words(queue):
    with pytest.raises(InvalidInput, match=r"pending.*dead_letter.*scheduled"):
        await queue.list("finished")


async def test_every_filter_applies_before_the_limit(queue, store, clock):
    wanted = await queue.submit("rare", queue="mail", tags=["vip", "x"], ordering_key="k")
    clock.advance(10)
    await queue.submit_many([("greet", number) for number in range(300)], tags=["x"])
    for filters in (
        {"type": "rare"},
        {"queue": "mail"},
        {"tag": "vip"},
        {"older_than": 5},
        {"older_than": timedelta(seconds=9)},
        {"type": "rare", "queue": "mail", "tag": "x", "status": "ready", "older_than": 10 - 1e-6},
    ):
        page = await queue.list(limit=1, **filters)
        assert ids(page.tasks) == [wanted.id], filters
        assert page.cursor is None, filters
    assert (await queue.list(type="rare", queue="default")).tasks == []
    assert (await queue.list(older_than=10)).tasks == []
    assert ids((await store.find(Query(ordering_key="k", limit=1))).tasks) == [wanted.id]


async def test_running_tasks_are_found_by_worker_and_by_request_to_cancel(queue, store):
    await queue.submit_many([("greet", number) for number in range(20)])
    mine, asked = await claim(store, 2, by="me")
    await claim(store, 18, by="others")
    await queue.cancel(asked.id)
    running = Query(status=TaskStatus.Running, worker_id="me", limit=2)
    assert set(ids((await store.find(running)).tasks)) == {mine.id, asked.id}
    cancelling = msgspec.structs.replace(running, cancel_requested=True)
    assert ids((await store.find(cancelling)).tasks) == [asked.id]


async def test_a_listing_shows_leases_as_they_are(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(10)
    await renew(store, held)
    (listed,) = (await queue.list("running")).tasks
    assert listed.lease_expires_at == clock() + LEASE


@pytest.mark.parametrize("limit", [1, 3, 10, 11])
async def test_pages_hold_everything_once(queue, limit):
    tasks = await queue.submit_many([("greet", number) for number in range(10)])
    found = await pages(queue, limit)
    assert [task.id for page in found for task in page] == ids(reversed(tasks))
    assert all(len(page) == limit for page in found[:-1])


async def test_pages_of_ended_tasks_that_ended_together_hold_everything_once(queue):
    tasks = await queue.submit_many([("greet", number) for number in range(10)])
    await queue.cancel_many(ids(tasks))
    found = await pages(queue, 3, status="cancelled")
    assert [task.id for page in found for task in page] == ids(reversed(tasks))


async def test_a_cursor_stays_valid_while_tasks_come_and_go(queue_of_part, part, clock):
    tasks = await queue_of_part.submit_many([("greet", number) for number in range(9)])
    first = await queue_of_part.list(limit=3)
    assert [task.input for task in first.tasks] == [8, 7, 6]
    await queue_of_part.submit_many([("greet", "new") for _ in range(5)])
    for held in await claim(part, 4):
        await complete(part, held)
    clock.advance(1)
    assert await part.prune({TaskStatus.Completed: clock()}, clock(), 2) == 2
    second = await queue_of_part.list(limit=3, cursor=first.cursor)
    assert [task.input for task in second.tasks] == [5, 4, 3]
    third = await queue_of_part.list(limit=3, cursor=second.cursor)
    assert [task.input for task in third.tasks] == [2]
    assert third.cursor is None
    assert tasks[2].id == third.tasks[0].id


async def test_a_cursor_stays_valid_when_the_task_it_stands_on_is_gone(queue, store, clock):
    for number in range(4):
        await brought_to(queue, "completed", priority=number)
        clock.advance(1)
    first = await queue.list("completed", limit=2)
    assert await store.prune({TaskStatus.Completed: first.tasks[1].completed_at}, clock(), 10) == 3
    rest = await queue.list("completed", limit=2, cursor=first.cursor)
    assert (rest.tasks, rest.cursor) == ([], None)


async def test_a_walk_from_the_oldest_meets_what_was_submitted_after_the_newest_were_forgotten(queue, store, clock):
    await queue.submit("other")
    await brought_to(queue, TaskStatus.Completed)
    await brought_to(queue, TaskStatus.Completed)
    first = await store.find(Query(oldest=True, limit=2))
    clock.advance(1)
    assert await store.prune({TaskStatus.Completed: clock()}, clock(), 100) == 2
    late = await queue.submit("greet")
    rest = await store.find(Query(oldest=True, limit=2, cursor=first.cursor))
    assert ids(rest.tasks) == [late.id]


@pytest.mark.parametrize("status", [None, "pending", "completed"])
@pytest.mark.parametrize("cursor", ["nonsense", "", "[]", "☕", "\ud800", 5])
async def test_a_cursor_that_no_page_gave_is_refused(queue, status, cursor):
    await queue.submit("greet")
    with pytest.raises(InvalidInput, match="cursor"):
        await queue.list(status, cursor=cursor)


async def test_a_cursor_of_a_listing_in_another_order_is_refused(queue):
    tasks = await queue.submit_many([("greet", number) for number in range(4)])
    await queue.cancel_many(ids(tasks[:2]))
    by_end, by_submit = (await queue.list("cancelled", limit=1)).cursor, (await queue.list(limit=1)).cursor
    for status, cursor in ((None, by_end), ("pending", by_end), ("cancelled", by_submit)):
        with pytest.raises(InvalidInput, match="no cursor of this listing"):
            await queue.list(status, cursor=cursor)


@pytest.mark.parametrize("status", [None, "cancelled"])
async def test_a_cursor_with_numbers_that_no_store_can_hold_breaks_nothing(queue, status):
    tasks = await queue.submit_many([("greet", number) for number in range(4)])
    await queue.cancel_many(ids(tasks[:2]))
    cursor = (await queue.list(status, limit=1)).cursor
    for digits in (r"\d+", r"\d+(?=\D*$)"):
        with contextlib.suppress(InvalidInput):
            assert (await queue.list(status, cursor=re.sub(digits, "9" * 30, cursor))).cursor is None


async def test_a_limit_of_zero_lists_nothing_and_a_bad_one_is_refused(queue):
    await queue.submit("greet")
    assert (await queue.list(limit=0)).tasks == []
    for limit in (-1, 1.5, True, "1", 2**70):
        with pytest.raises(InvalidInput, match="limit"):
            await queue.list(limit=limit)


async def test_errors_are_found_by_a_part_of_their_text(queue, store):
    for text in ("no route", "timeout ☕", "no answer", "no route to host"):
        await queue.submit("greet")
        await fail(store, await claim_one(store), text, permanent=True)
    found = await pages(queue, 1, status="failed", error_contains="no route")
    assert [task.last_error for page in found for task in page] == ["no route to host", "no route"]


async def test_counts_always_equal_what_a_full_listing_says(queue, store, clock):
    async def agree():
        tasks = await everything(store)
        counted = {(lane.queue, lane.type, lane.status): lane.count for lane in await store.count()}
        assert counted == Counter((task.queue, task.type, task.status) for task in tasks)
        by_status = Counter(task.status for task in tasks)
        assert await queue.counts() == {status: by_status[status] for status in TaskStatus}
        mail = Counter(task.status for task in tasks if task.queue == "mail")
        assert await queue.counts("mail") == {status: mail[status] for status in TaskStatus}

    await agree()
    for number, status in enumerate(TaskStatus):
        await brought_to(queue, status, f"t{number}", queue="mail")
        await agree()
    tasks = await queue.submit_many([("greet", number) for number in range(10)], ttl=60, max_attempts=2)
    await agree()
    held = await claim(store, 6)
    await agree()
    await complete(store, held[0])
    await fail(store, held[1])
    dead = await fail(store, held[2], permanent=True)
    await queue.cancel(held[3].id)
    await queue.cancel(tasks[9].id)
    await agree()
    clock.advance(LEASE)
    await claim(store, 2)
    await agree()
    clock.advance(60)
    await claim(store, 0)
    await agree()
    await queue.retry(dead.id)
    await queue.archive(held[0].id)
    await agree()
    before = clock.advance(1)
    assert await store.prune(dict.fromkeys(TaskStatus, before), before, 3) == 3
    await agree()
    assert await store.prune(dict.fromkeys(TaskStatus, before), before, 1000) > 3
    await agree()


async def test_stats_agree_with_the_store(queue, store, clock):
    await brought_to(queue, "failed")
    running = await brought_to(queue, "running")
    clock.advance(5 * SECOND)
    await queue.submit("greet", queue="mail")
    clock.advance(2 * SECOND)
    stats = await queue.stats()
    assert stats.now == clock()
    assert {status: count for status, count in stats.counts.items() if count} == {
        "failed": 1,
        "running": 1,
        "pending": 1,
    }
    assert stats.queues == {"default": {"failed": 1, "running": 1}, "mail": {"pending": 1}}
    assert stats.types == {"greet": {"failed": 1, "running": 1, "pending": 1}}
    assert (stats.oldest_pending_seconds, stats.oldest_running_seconds) == (2, 7)
    assert stats.unhandled_types == ["greet"]
    await complete(store, running)
    assert (await queue.stats()).oldest_running_seconds is None


async def test_the_longest_attempt_is_found_whatever_has_happened_to_it_since(queue, store, clock):
    assert await store.running_since() is None
    first = clock()
    asked, renewed = await brought_to(queue, "running"), await brought_to(queue, "running")
    clock.advance(SECOND)
    await brought_to(queue, "running")
    await store.renew([Renewal(renewed.id, renewed.fence, LEASE, Progress(1, 2))])
    await queue.cancel(asked.id)
    assert await store.running_since() == first
    await complete(store, renewed)
    assert await store.running_since() == first
    (asked,) = await store.get([asked.id])
    await complete(store, asked)
    assert await store.running_since() == first + SECOND


async def test_what_is_overdue_is_found_by_its_status_too(queue, store, clock):
    held = await brought_to(queue, "running")
    late = await queue.submit("greet", ttl=LEASE / 2)
    moment = clock() + LEASE
    assert ids(await store.overdue(moment, 10)) == [late.id, held.id]
    assert ids(await store.overdue(moment, 1, TaskStatus.Running)) == [held.id]
    assert ids(await store.overdue(moment, 10, TaskStatus.Pending)) == [late.id]
    assert await store.overdue(moment, 10, TaskStatus.Completed) == []


async def test_what_is_overdue_is_counted_by_type_and_apart_from_what_was_before(queue, store, clock):
    start = clock()
    await brought_to(queue, "running")
    await queue.submit_many([("greet", None, {"ttl": seconds}) for seconds in (10, 20, 20, 30)])
    await queue.submit("mail", ttl=20)
    await queue.submit("mail")
    soon, later = start + 10 * SECOND, start + 20 * SECOND
    assert await store.count_overdue(soon, 10, TaskStatus.Pending) == {"greet": 1}
    assert await store.count_overdue(later, 10, TaskStatus.Pending) == {"greet": 3, "mail": 1}
    assert await store.count_overdue(later, 10, TaskStatus.Pending, soon) == {"greet": 2, "mail": 1}
    assert await store.count_overdue(later, 10, TaskStatus.Pending, later) == {}
    assert sum((await store.count_overdue(later, 2, TaskStatus.Pending, soon)).values()) == 2
    assert await store.count_overdue(later, 0, TaskStatus.Pending) == {}
    assert await store.count_overdue(later, 10, TaskStatus.Completed) == {}


async def test_what_has_lapsed_is_counted_by_the_lease_as_it_was_renewed(queue, store, clock):
    lapsing, renewed = await brought_to(queue, "running"), await brought_to(queue, "running")
    clock.advance(SECOND)
    await store.renew([Renewal(renewed.id, renewed.fence, LEASE)])
    end = clock() - SECOND + LEASE
    assert await store.count_overdue(end - SECOND, 10, TaskStatus.Running) == {}
    assert await store.count_overdue(end, 10, TaskStatus.Running) == {lapsing.type: 1}
    assert await store.count_overdue(end + SECOND, 10, TaskStatus.Running) == {lapsing.type: 2}
    assert await store.count_overdue(end + SECOND, 10, TaskStatus.Running, end) == {renewed.type: 1}
    assert await store.count_overdue(end, 10, TaskStatus.Pending) == {}


async def test_what_is_due_is_told_by_queue_and_type_since_when_the_first_has_been(queue, store, clock):
    start = clock()
    assert await store.due(start) == []
    await queue.submit_many([("greet", number, {"delay": 86_400}) for number in range(120)])
    await queue.submit("greet", delay=30)
    await queue.submit("greet", delay=20, priority=-3)
    await queue.submit("greet", queue="mail", delay=10)
    await queue.submit("write", delay=40)
    await queue.cancel((await queue.submit("over")).id)
    clock.advance(9)
    assert await store.due(clock()) == []
    clock.advance(21)
    mail, first = (Due(name, "greet", start + seconds * SECOND) for name, seconds in (("mail", 10), ("default", 20)))
    assert await store.due(clock()) == [first, mail]
    clock.advance(70)
    assert await store.due(clock()) == [first, Due("default", "write", start + 40 * SECOND), mail]


async def test_the_first_task_of_a_key_is_due_before_any_worker_has_come(queue, store, clock):
    await queue.submit("greet", ordering_key="k", delay=5)
    assert await store.due(clock()) == []
    clock.advance(10)
    assert [(due.queue, due.type) for due in await store.due(clock())] == [("default", "greet")]


async def test_what_runs_or_has_ended_is_not_due(queue, store, clock):
    await brought_to(queue, "running")
    await brought_to(queue, "completed")
    assert await store.due(clock()) == []
