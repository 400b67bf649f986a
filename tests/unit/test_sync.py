"""The blocking twin: the same calls without `await`."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import tenure.sync
from tenure.errors import InvalidInput, InvalidURL, StoreClosed, TaskNotFound
from tenure.observe.events import Subscriber
from tenure.task import TaskStatus

from .builders import NOW


@pytest.fixture
def queue():
    with tenure.sync.connect("memory://", clock=lambda: NOW) as queue:
        yield queue


def threads_of_tenure() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tenure-sync"]


def test_a_task_goes_in_and_comes_out(queue):
    task = queue.submit("greet", {"name": "Ada"}, delay=60)
    assert queue.get(task.id) == task
    assert queue.now() == NOW
    assert queue.cancel(task.id).status is TaskStatus.Cancelled
    assert queue.retry(task.id).status is TaskStatus.Pending
    assert [event.what for event in queue.history(task.id)] == ["created", "cancelled", "retried"]
    assert queue.counts()[TaskStatus.Pending] == 1
    assert queue.list("scheduled").tasks == []
    assert queue.explain(task.id) == "no worker handles the type 'greet' in queue 'default'"


def test_aliases_are_the_same_calls(queue):
    assert queue.enqueue("greet").status is TaskStatus.Pending
    assert tenure.sync.Queue.replay is tenure.sync.Queue.requeue is tenure.sync.Queue.retry


def test_many_threads_may_use_one_queue(queue):
    with ThreadPoolExecutor(8) as pool:
        ids = {task.id for task in pool.map(lambda number: queue.submit("greet", number), range(200))}
    assert len(ids) == 200
    assert queue.counts()[TaskStatus.Pending] == 200


def test_a_scan_goes_through_every_page(queue):
    made = queue.submit_many([("greet", number) for number in range(1001)], tags=["a"])
    queue.submit("part")
    assert {task.id for task in queue.scan("pending", type="greet", tag="a")} == {task.id for task in made}
    assert list(queue.scan("failed")) == []


def test_errors_are_those_of_the_asynchronous_calls(queue):
    with pytest.raises(TaskNotFound):
        queue.cancel("nobody")
    with pytest.raises(InvalidInput):
        queue.submit("")


async def test_it_may_be_called_where_a_loop_runs():
    def work():
        with tenure.sync.connect("memory://") as queue:
            return queue.submit("greet").status

    assert await asyncio.to_thread(work) is TaskStatus.Pending


def test_a_wrong_address_leaves_no_thread_behind():
    before = threads_of_tenure()
    with pytest.raises(InvalidURL):
        tenure.sync.connect("nowhere://")
    assert threads_of_tenure() == before


def test_closing_twice_is_fine_and_the_thread_is_gone():
    before = threads_of_tenure()
    queue = tenure.sync.connect("memory://")
    assert len(threads_of_tenure()) == len(before) + 1
    queue.close()
    queue.close()
    assert threads_of_tenure() == before


def test_a_closed_queue_says_so():
    queue = tenure.sync.connect("memory://")
    queue.close()
    with pytest.raises(StoreClosed, match="This queue is closed"):
        queue.submit("greet")


def test_without_an_address_the_environment_decides(monkeypatch, tmp_path):
    monkeypatch.setenv("TENURE_URL", f"sqlite:///{tmp_path}/jobs.db")
    with tenure.sync.connect() as queue:
        task = queue.submit("greet", 1)
    with tenure.sync.connect() as again:
        assert again.get(task.id).input == 1


def test_what_happens_can_be_observed(queue):
    class Listener(Subscriber):
        heard = ()

        def happened(self, events):
            self.heard += tuple(type(event).__name__ for event in events)

    listener = Listener()
    assert queue.observe(listener) is queue
    task = queue.submit("greet")
    queue.cancel(task.id)
    queue.close()
    assert listener.heard == ("Submitted", "Cancelled")


def test_a_call_that_is_still_waiting_when_the_queue_is_closed_is_told():
    queue = tenure.sync.connect("memory://")
    asked = threading.Event()

    async def never():
        asked.set()
        await asyncio.Event().wait()

    queue._queue.store.count = never
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(queue.counts)
        assert asked.wait(30)
        queue.close()
        with pytest.raises(StoreClosed, match="closed while a call waited for its answer"):
            waiting.result(30)


def test_a_forked_child_is_told_to_connect_again_and_leaves_the_queue_to_its_parent(queue, monkeypatch):
    with monkeypatch.context() as forked:
        forked.setattr("tenure.stores.door.os", SimpleNamespace(getpid=lambda: -1))
        with pytest.raises(StoreClosed, match=r"Connect again in this process\."):
            queue.submit("greet")
        queue.close()
    assert queue.submit("greet").created
