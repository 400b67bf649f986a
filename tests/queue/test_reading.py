"""What a producer or operator can see."""

import asyncio
from datetime import timedelta

import pytest

from tenure import (
    InvalidInput,
    ResultTimeout,
    RetryPolicy,
    TaskNotFound,
    TaskStatus,
    TaskUnsuccessful,
    Worker,
    connect,
)
from tenure.stores.base import WORKER, Note, Want

WANT = Want("w1", ("default",), {"job": 25}, 1, timedelta(seconds=30))


async def test_a_result_is_the_output_of_a_completed_task(queue, run):
    task = await queue.submit("job", {"answer": 42})
    await run()
    assert await queue.result(task.id) == {"answer": 42}
    await queue.archive(task.id)
    assert await queue.result(task.id) == {"answer": 42}


async def test_a_result_is_waited_for(queue, run):
    task = await queue.submit("job", 7)
    waiting = asyncio.create_task(queue.result(task.id, timeout=30))
    await asyncio.sleep(0)
    await run()
    assert await waiting == 7


async def test_there_is_no_result_of_a_task_that_did_not_succeed(queue, run, clock):
    failed = await queue.submit("job", "broken")
    await run()
    with pytest.raises(TaskUnsuccessful, match="ended as failed: ValueError: broken"):
        await queue.result(failed.id)
    cancelled = await queue.submit("job", 1)
    await queue.cancel(cancelled.id, reason="no need")
    with pytest.raises(TaskUnsuccessful, match="ended as cancelled: no need"):
        await queue.result(cancelled.id)
    expired = await queue.submit("job", 1, ttl=0)
    await run()
    with pytest.raises(TaskUnsuccessful, match="ended as expired"):
        await queue.result(expired.id)
    for task, words in (
        (failed, "failed: ValueError: broken"),
        (cancelled, "cancelled: no need"),
        (expired, "expired"),
    ):
        await queue.archive(task.id)
        with pytest.raises(TaskUnsuccessful, match=f"ended as {words}") as ended:
            await queue.result(task.id)
        assert words.startswith(ended.value.status)
    with pytest.raises(TaskNotFound, match="nobody"):
        await queue.result("nobody")


async def test_a_scheduled_task_is_no_old_one(queue, clock):
    await queue.submit("job", 1, delay=3600)
    clock.advance(1800)
    assert (await queue.stats()).oldest_pending_seconds is None
    clock.advance(1860)
    assert (await queue.stats()).oldest_pending_seconds == 60


@pytest.mark.parametrize("timeout", [0, 0.01, timedelta(seconds=0.01)])
async def test_patience_for_a_result_ends(queue, timeout):
    task = await queue.submit("job", 1)
    with pytest.raises(ResultTimeout, match="still pending after"):
        await queue.result(task.id, timeout=timeout)
    assert (await queue.get(task.id)).status is TaskStatus.Pending


async def live_worker(queue, *, queues=("default",), types=("job",)):
    """The sign of life that a worker leaves."""
    value = {
        "id": "w9", "host": "h", "pid": 1, "queues": list(queues), "types": list(types),
        "concurrency": 1, "running": 0, "started_at": (await queue.now()).isoformat(),
    }  # fmt: skip
    await queue.store.put_note(Note(WORKER, "w9", value))


async def test_explain_says_when_a_scheduled_task_is_due(queue):
    task = await queue.submit("job", 1, delay=150)
    assert await queue.explain(task.id) == "due in 2m 30s"


async def test_explain_says_that_a_task_backs_off(queue, run):
    task = await queue.submit("job", "broken")
    await run(retry=RetryPolicy(base=60, max_delay=None, jitter=0))
    assert await queue.explain(task.id) == "backing off after 1 failure, due in 1m (ValueError: broken)"


async def test_explain_says_who_holds_a_task(queue, clock):
    task = await queue.submit("job", 1)
    await queue.store.claim(WANT)
    assert await queue.explain(task.id) == "leased by w1 until 2026-01-28T12:00:30.000000Z"
    await queue.cancel(task.id)
    assert (await queue.explain(task.id)).startswith("asked to stop; leased by w1")
    clock.advance(30)
    assert "lapsed at 2026-01-28T12:00:30" in await queue.explain(task.id)


async def test_explain_says_how_a_task_ended(queue, run, clock):
    done, failed, gone, late = [
        await queue.submit("job", 1),
        await queue.submit("job", "broken"),
        await queue.submit("job", 1),
        await queue.submit("job", 1, ttl=0),
    ]
    await queue.cancel(gone.id, reason="no need", by="ada")
    assert "expired at" in await queue.explain(late.id)
    await run()
    assert await queue.explain(done.id) == "completed at 2026-01-28T12:00:00.000000Z"
    assert "failed for good" in await queue.explain(failed.id)
    assert "after 1 attempt: ValueError: broken" in await queue.explain(failed.id)
    assert await queue.explain(gone.id) == "cancelled by ada at 2026-01-28T12:00:00.000000Z: no need"
    assert await queue.explain(late.id) == "expired at 2026-01-28T12:00:00.000000Z"


async def test_explain_says_that_no_worker_handles_a_type(queue, clock):
    task = await queue.submit("job", 1)
    assert await queue.explain(task.id) == "no worker handles the type 'job' in queue 'default'"
    await live_worker(queue, types=["other"])
    assert "no worker handles" in await queue.explain(task.id)
    await live_worker(queue, queues=["elsewhere"])
    assert "no worker handles" in await queue.explain(task.id)
    await live_worker(queue)
    assert await queue.explain(task.id) == "due; the next free worker takes it"
    clock.advance(61)
    assert "no worker handles" in await queue.explain(task.id)


async def test_explain_says_that_a_queue_is_paused(queue):
    await live_worker(queue)
    task = await queue.submit("job", 1)
    await queue.pause("default", "database upgrade")
    assert await queue.explain(task.id) == "queue 'default' is paused: database upgrade"
    await queue.resume("default")
    assert await queue.explain(task.id) == "due; the next free worker takes it"


async def test_explain_says_which_task_of_its_key_is_waited_for(queue):
    first, second, third = [await queue.submit("job", number, ordering_key="k") for number in range(3)]
    assert await queue.explain(second.id) == f"waits for an earlier task of its key 'k': {first.id}"
    assert await queue.explain(third.id) == f"waits for an earlier task of its key 'k': {second.id}"
    await queue.store.claim(WANT)
    assert await queue.explain(second.id) == f"waits for an earlier task of its key 'k': {first.id}"
    assert "leased by" in await queue.explain(first.id)


async def test_explain_and_history_know_who_is_not_there(queue):
    for call in (queue.explain, queue.history, queue.cancel, queue.retry, queue.archive, queue.mark_expired):
        with pytest.raises(TaskNotFound, match="'nobody'"):
            await call("nobody")
    assert await queue.get("nobody") is None


WORDS = [
    ({"waiting", "scheduled", "retrying"}, ["pending"]),
    ({"waiting"}, ["ready"]),
    ({"scheduled", "retrying"}, ["scheduled"]),
    ({"retrying"}, ["retrying"]),
    ({"running"}, ["running", "in_progress", "claimed", "inflight", "In-Progress", TaskStatus.Running]),
    ({"failed"}, ["failed", "dead_letter", "dlq", "dead", " DLQ "]),
    ({"completed"}, ["completed", "done"]),
    ({"cancelled"}, ["cancelled"]),
    ({"expired"}, ["expired"]),
    ({"archived"}, ["archived"]),
    (
        {"waiting", "scheduled", "retrying", "running", "failed", "completed", "cancelled", "expired", "archived"},
        [None],
    ),
]


@pytest.fixture
async def one_of_each(queue, clock):
    """A task in every state, named by its tag."""
    worker = Worker(queue, retry=RetryPolicy(base=3600, max_delay=None))

    @worker.task("job")
    async def job(input):
        if input in ("failed", "retrying"):
            raise ValueError(input)

    for name in ("failed", "retrying", "completed", "archived"):
        await queue.submit("job", name, tags=[name], **({"max_attempts": 1} if name == "failed" else {}))
    expired = await queue.submit("job", "expired", tags=["expired"], ttl=0)
    await worker.run(until_idle=True)
    assert (await queue.get(expired.id)).status is TaskStatus.Expired
    await queue.archive((await queue.list(tag="archived")).tasks[0].id)
    await queue.cancel((await queue.submit("job", "cancelled", tags=["cancelled"])).id)
    await queue.submit("job", "running", tags=["running"])
    await queue.store.claim(WANT)
    await queue.submit("job", "waiting", tags=["waiting"])
    await queue.submit("job", "scheduled", tags=["scheduled"], delay=60)


@pytest.mark.usefixtures("one_of_each")
async def test_list_understands_every_word(queue):
    for names, words in WORDS:
        for word in words:
            page = await queue.list(word)
            assert {task.tags[0] for task in page.tasks} == names, word
            assert page.cursor is None


@pytest.mark.usefixtures("one_of_each")
async def test_an_unknown_word_is_an_error_that_lists_the_words(queue):
    with pytest.raises(InvalidInput, match=r"'sleeping' is no status\. Known: pending, .*dlq.*retrying"):
        await queue.list("sleeping")


@pytest.mark.usefixtures("one_of_each")
async def test_counts_and_stats_agree_with_the_listings(queue):
    counts = await queue.counts()
    stats = await queue.stats()
    for status in TaskStatus:
        found = len((await queue.list(status)).tasks)
        assert counts[status] == stats.counts[status] == found, status
    assert stats.queues["default"]["pending"] == 3
    assert stats.types["job"]["failed"] == 1
    assert stats.unhandled_types == ["job"]
    assert (stats.oldest_pending_seconds, stats.oldest_running_seconds) == (0, 0)
    assert (await queue.counts("elsewhere"))[TaskStatus.Pending] == 0


async def test_filters_apply_before_the_limit(queue, clock):
    for number in range(30):
        await queue.submit(
            ["job", "other"][number % 2], number, queue=["a", "b"][number % 3 == 0], tags=[f"t{number % 5}"]
        )
        clock.advance(1)
    assert [task.input for task in (await queue.list(type="job", limit=3)).tasks] == [28, 26, 24]
    assert [task.input for task in (await queue.list("pending", queue="b", limit=2)).tasks] == [27, 24]
    assert [task.input for task in (await queue.list(tag="t2", type="other")).tasks] == [27, 17, 7]
    assert [task.input for task in (await queue.list(older_than=28)).tasks] == [1, 0]
    assert (await queue.list(older_than=10**12)).tasks == []
    assert (await queue.list(limit=0)).tasks == []


@pytest.mark.parametrize("status", [None, "pending", "failed"])
async def test_pages_meet_every_task_once_while_others_come_and_go(queue, run, status):
    ids = [(await queue.submit("job", "broken" if status == "failed" else 1)).id for _ in range(25)]
    if status == "failed":
        await run()
    seen, cursor = [], None
    while True:
        page = await queue.list(status, limit=4, cursor=cursor)
        seen += [task.id for task in page.tasks]
        if (cursor := page.cursor) is None:
            break
        await queue.submit("job", 2)
    assert sorted(seen) == sorted(ids)


async def test_tasks_are_found_by_their_error_without_missing_any(queue, run):
    """Matches and others are mixed unevenly, so that pages end at odd places."""
    wanted = set()
    for number in range(60):
        boom = number % 7 in (0, 1, 2) or 20 < number < 35
        task = await queue.submit("job", f"boom {number}" if boom else f"other {number}")
        if boom:
            wanted.add(task.id)
    await run()
    for limit in (1, 3, 10, 13, 100):
        seen, cursor = [], None
        while True:
            page = await queue.list("failed", error_contains="boom", limit=limit, cursor=cursor)
            assert len(page.tasks) <= limit
            seen += [task.id for task in page.tasks]
            if (cursor := page.cursor) is None:
                break
        assert len(seen) == len(wanted), limit
        assert set(seen) == wanted, limit


@pytest.mark.parametrize("limit", [-1, 1.5, True, "10"])
async def test_a_limit_is_a_number(queue, limit):
    with pytest.raises(InvalidInput, match="limit="):
        await queue.list(limit=limit)


async def test_workers_that_fall_silent_are_gone(queue, clock):
    await live_worker(queue)
    (worker,) = await queue.workers()
    assert (worker.id, worker.alive, worker.seen_at) == ("w9", True, clock())
    clock.advance(60)
    assert await queue.workers() == []
    (worker,) = await queue.workers(gone=True)
    assert worker.alive is False


async def test_the_history_comes_oldest_first_from_one(queue, run):
    task = await queue.submit("job", 1)
    await run(worker_id="w1")
    history = await queue.history(task.id)
    assert [(event.number, event.what, event.worker) for event in history] == [
        (1, "created", None),
        (2, "claimed", "w1"),
        (3, "completed", "w1"),
    ]


async def test_a_queue_opened_without_a_context_can_be_closed_twice(url):
    queue = await connect(url)
    await queue.close()
    await queue.close()


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, "1", True])
async def test_patience_for_a_result_is_a_time(queue, timeout):
    task = await queue.submit("job", 1)
    with pytest.raises(InvalidInput, match="timeout"):
        await queue.result(task.id, timeout=timeout)


async def test_a_rate_is_measured_over_a_time(queue, run):
    await queue.submit("job", 1)
    await run()
    assert await queue.throughput(timedelta(minutes=1)) == await queue.throughput(60)
    with pytest.raises(InvalidInput, match="window must be"):
        await queue.throughput("minute")
