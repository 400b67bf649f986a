"""The end of a connection: whoever calls after it hears so at once, and a worker ends with that."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from tenure.errors import StoreClosed, StoreUnusable
from tenure.queue import Queue
from tenure.stores.base import Change, Note, Piece, Query, Renewal
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import LEASE, brought_to, claim
from tenure.worker import Worker

PATIENCE = 60
"""Seconds after which a call that has not come back counts as one that never does."""

CALLS = {
    "now": lambda queue, _: queue.store.now(),
    "insert": lambda queue, _: queue.submit("greet", 1),
    "claim": lambda queue, _: claim(queue.store),
    "swap": lambda queue, held: queue.store.swap([Change(held, held)]),
    "renew": lambda queue, held: queue.store.renew([Renewal(held.id, held.fence, LEASE)]),
    "get": lambda queue, held: queue.store.get([held.id]),
    "find": lambda queue, _: queue.store.find(Query()),
    "overdue": lambda queue, held: queue.store.overdue(held.created_at, 10),
    "count_overdue": lambda queue, held: queue.store.count_overdue(held.created_at, 10, TaskStatus.Running),
    "running_since": lambda queue, _: queue.store.running_since(),
    "count": lambda queue, _: queue.store.count(),
    "prune": lambda queue, held: queue.store.prune({TaskStatus.Completed: held.created_at}, held.created_at, 10),
    "forget": lambda queue, held: queue.store.forget([held], held.created_at),
    "dump": lambda queue, _: queue.store.dump(),
    "restore": lambda queue, held: queue.store.restore(Piece([held]), held.created_at),
    "put_note": lambda queue, _: queue.store.put_note(Note("kind", "key", {"a": 1})),
    "notes": lambda queue, _: queue.store.notes("kind"),
    "result": lambda queue, held: queue.result(held.id),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_closed_queue_answers_every_call_with_what_to_do(queue, call):
    held = await brought_to(queue, "running")
    await queue.close()
    with pytest.raises(StoreClosed, match=r"is closed\. Connect again\."):
        async with asyncio.timeout(PATIENCE):
            await CALLS[call](queue, held)
    with pytest.raises(StoreClosed):
        queue.store.check()


async def test_who_waits_for_a_result_hears_that_the_queue_was_closed(queue):
    task = await queue.submit("greet", 1)
    waiting = asyncio.ensure_future(queue.result(task.id))
    await asyncio.sleep(0)
    await queue.close()
    with pytest.raises(StoreClosed):
        async with asyncio.timeout(PATIENCE):
            await waiting


def greeter(queue, begun):
    worker = Worker(queue, poll=0.05)

    @worker.task("greet")
    async def greet(_):
        begun.set()
        await asyncio.Event().wait()

    return worker


async def test_a_worker_on_a_closed_queue_ends_at_once(queue):
    await queue.close()
    with pytest.raises(StoreClosed):
        async with asyncio.timeout(PATIENCE):
            await greeter(queue, asyncio.Event()).run(until_idle=True)


@pytest.mark.parametrize("tasks", [0, 1, 60], ids=["idle", "busy", "without a free slot"])
async def test_a_worker_whose_queue_is_closed_ends_and_leaves_no_handler_behind(queue, tasks, caplog):
    begun = asyncio.Event()
    worker = greeter(queue, begun)
    before = asyncio.all_tasks()
    if tasks:
        await queue.submit_many([("greet", number) for number in range(tasks)])
    else:
        worker.on_startup(begun.set)
    run = asyncio.create_task(worker.run())
    await begun.wait()
    await queue.close()
    with pytest.raises(StoreClosed):
        async with asyncio.timeout(PATIENCE):
            await run
    assert not [task.get_name() for task in asyncio.all_tasks() - before if task.get_name() == "greet"]
    assert "will keep trying" not in caplog.text


async def test_a_forked_child_is_told_to_connect_again_and_takes_nothing_from_its_parent(queue, monkeypatch):
    held = await brought_to(queue, "running")
    with monkeypatch.context() as forked:
        forked.setattr("tenure.stores.door.os", SimpleNamespace(getpid=lambda: os.getpid() + 1))
        for call in CALLS.values():
            with pytest.raises(StoreClosed, match=r"a fork of it.*Connect again in this process\."):
                await call(queue, held)
        await queue.close()
    assert await queue.get(held.id) == held


async def test_another_event_loop_is_served_or_told_that_it_cannot_be(queue):
    """It is never left waiting, and neither are those who submit here at the same time."""

    async def there():
        async with asyncio.timeout(PATIENCE):
            try:
                return [(await queue.submit("there", number)).id for number in range(50)]
            except StoreUnusable as error:
                return str(error)

    async def here():
        async with asyncio.timeout(PATIENCE):
            return [(await queue.submit("here", number)).id for number in range(50)]

    mine, theirs = await asyncio.gather(here(), asyncio.to_thread(asyncio.run, there()))
    if isinstance(theirs, str):
        assert "was connected in another event loop" in theirs
        theirs = []
    assert None not in await queue.store.get([*mine, *theirs])


async def test_a_queue_is_closed_for_all_who_share_its_handle(store):
    await Queue(store).close()
    with pytest.raises(StoreClosed):
        await Queue(store).submit("greet", 1)
