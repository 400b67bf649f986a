"""The same calls without an event loop, from any number of threads."""

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import tenure.sync
from tenure import IdempotencyConflict, StoreClosed, StoreError, TaskStatus, TenureError
from tenure.queue import Queue
from tenure.testing import FaultyStore


@pytest.fixture
def queue(url):
    with tenure.sync.connect(url) as queue:
        yield queue


def test_threads_submit_together_and_share_writes(queue):
    counted = FaultyStore(queue._queue.store)
    queue._queue = Queue(counted)
    together = threading.Barrier(20)

    def submit(number):
        together.wait()
        return [queue.submit("job", f"{number} {index}") for index in range(10)]

    with ThreadPoolExecutor(20) as threads:
        tasks = [task for group in threads.map(submit, range(20)) for task in group]
    assert len({task.id for task in tasks}) == 200
    assert queue.counts()[TaskStatus.Pending] == 200
    assert counted.calls["insert"] < 200


def test_one_key_from_many_threads_is_one_task(queue):
    with ThreadPoolExecutor(20) as threads:
        tasks = list(threads.map(lambda _: queue.submit("job", 1, idempotency_key="k"), range(100)))
    assert len({task.id for task in tasks}) == 1
    assert sum(task.created for task in tasks) == 1


def test_errors_reach_the_caller(queue):
    queue.submit("job", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        queue.submit("job", 2, idempotency_key="k")
    with pytest.raises(tenure.TaskNotFound):
        queue.cancel("nobody")


def test_everything_the_queue_can_do_can_be_done_without_await():
    calls = {
        name
        for name, member in inspect.getmembers(Queue)
        if not name.startswith("_") and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
    }
    assert calls - set(dir(tenure.sync.Queue)) == set()


def test_a_life_without_await(queue):
    task = queue.submit("job", {"a": 1})
    assert queue.get(task.id).input == {"a": 1}
    assert [each.id for each in queue.scan("pending", type="job")] == [task.id]
    assert [each.id for each in queue.list("pending").tasks] == [task.id]
    assert queue.cancel(task.id).status is TaskStatus.Cancelled
    assert queue.retry(task.id).status is TaskStatus.Pending
    assert [event.what for event in queue.history(task.id)] == ["created", "cancelled", "retried"]


def test_a_closed_queue_says_so(url):
    queue = tenure.sync.connect(url)
    queue.close()
    queue.close()
    with pytest.raises(StoreError, match="closed"):
        queue.submit("job", 1)


def in_threads(count, call):
    """Start it in so many threads; the threads, and what has come of each call."""
    outcomes = []

    def run():
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, outcomes


def ended(threads):
    for thread in threads:
        thread.join(30)
    return not any(thread.is_alive() for thread in threads)


def test_who_waits_for_a_result_while_another_thread_closes_is_told(queue):
    task = queue.submit("job", 1)
    looking = threading.Event()

    class Looks(FaultyStore):
        def mark(self):
            looking.set()
            return super().mark()

    queue._queue = Queue(Looks(queue._queue.store))
    threads, outcomes = in_threads(1, lambda: queue.result(task.id))
    assert looking.wait(30)
    queue.close()
    assert ended(threads)
    assert [type(outcome) for outcome in outcomes] == [StoreClosed]


def test_a_call_that_never_gets_its_answer_ends_with_the_close(queue):
    asked = threading.Event()

    class Silent(FaultyStore):
        async def count(self):
            asked.set()
            await asyncio.Event().wait()

    queue._queue = Queue(Silent(queue._queue.store))
    threads, outcomes = in_threads(1, queue.counts)
    assert asked.wait(30)
    queue.close()
    assert ended(threads)
    assert "closed while a call waited" in str(outcomes[0])


def test_threads_that_submit_while_another_closes_have_a_task_or_are_told(url):
    queue = tenure.sync.connect(url)
    begun = threading.Event()

    def submit():
        made = 0
        while True:
            try:
                queue.submit("job", made)
            except StoreClosed:
                return made
            made += 1
            begun.set()

    threads, outcomes = in_threads(6, submit)
    assert begun.wait(30)
    queue.close()
    assert ended(threads)
    assert all(isinstance(outcome, int) for outcome in outcomes)
    if url != "memory://":
        with tenure.sync.connect(url) as again:
            assert again.counts()[TaskStatus.Pending] >= sum(outcomes)


def test_closing_several_times_at_once_is_fine(url):
    for _ in range(10):
        queue = tenure.sync.connect(url)
        threads, outcomes = in_threads(3, queue.close)
        assert ended(threads)
        assert outcomes == [None] * 3


def test_a_store_that_cannot_be_opened_leaves_no_thread_behind(tmp_path):
    with pytest.raises(TenureError):
        tenure.sync.connect(f"sqlite:///{tmp_path}/nowhere/jobs.db")
    assert "tenure-sync" not in {thread.name for thread in threading.enumerate()}
