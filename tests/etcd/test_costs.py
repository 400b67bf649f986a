"""What a claim costs does not depend on what else is in the store."""

import pytest

from tenure import lifecycle
from tenure.payload import NULL
from tenure.queue import Queue
from tenure.stores.base import Change, Query
from tenure.stores.etcd.client import TXN
from tenure.stores.etcd.layout import after, unpack
from tenure.stores.etcd.requests import Txn, get, put, walk
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import LEASE, claim, ids

CROWD = 5000


class Counted:
    """Counts requests and the bytes of their answers."""

    def __init__(self, store):
        self.client, self.requests, self.bytes = store._client, 0, 0
        self._once = store._client._once
        store._client._once = self.once

    async def once(self, path, request):
        answer = await self._once(path, request)
        self.requests += 1
        self.bytes += answer.ByteSize()
        return answer

    def taken(self):
        taken = self.requests, self.bytes
        self.requests = self.bytes = 0
        return taken


async def foreign(queue, clock):
    await crowd(queue, "foreign", priority=100)


async def scheduled(queue, clock):
    await crowd(queue, "greet", priority=100, delay=3600)


async def elsewhere(queue, clock):
    await crowd(queue, "greet", priority=100, queue="elsewhere")


async def behind_a_key(queue, clock):
    await crowd(queue, "greet", priority=100, ordering_key="k")
    assert len(await claim(queue.store, 10)) == 1


async def ended(queue, clock):
    await crowd(queue, "greet", priority=100)
    for _ in range(0, CROWD, 1000):
        held = await claim(queue.store, 1000)
        await queue.store.swap([Change(task, lifecycle.complete(task, task.fence, NULL, clock())) for task in held])


async def crowd(client, type_, **options):
    for _ in range(0, CROWD, 1000):
        await client.submit_many([(type_, None)] * 1000, **options)


@pytest.mark.parametrize("others", [foreign, scheduled, elsewhere, behind_a_key, ended])
async def test_a_crowd_of_others_costs_a_claim_nothing(store, clock, others):
    queue = Queue(store)
    counted = Counted(store)
    await others(queue, clock)
    mine = await queue.submit("greet", priority=-100)
    await claim(store, 0)
    counted.taken()
    assert ids(await claim(store, 10)) == [mine.id]
    requests, size = counted.taken()
    assert requests <= 2, "one read and one transaction"
    assert size < 5000
    await claim(store, 10)
    requests, size = counted.taken()
    assert requests <= 2, "one read for what is due, one for what comes next"
    assert size < 5000


async def test_a_batch_is_one_transaction_and_a_drained_task_a_small_part_of_one(store, clock):
    queue = Queue(store)
    writer = store._db.writer
    await queue.submit("greet")
    before = writer.transactions
    await queue.submit_many([("greet", number) for number in range(999)])
    assert writer.transactions == before + 1, "nobody else submits, so there is nothing to try again"
    held = await claim(store, 1000)
    await store.swap([Change(task, lifecycle.complete(task, task.fence, NULL, clock())) for task in held])
    assert len(held) == 1000
    assert writer.transactions - before - 1 <= 50, "25 tasks a transaction, or more"


async def test_the_latest_of_many_are_listed_without_reading_all(store, clock):
    queue = Queue(store)
    await ended(queue, clock)
    latest = await queue.submit("greet")
    counted = Counted(store)
    assert (await queue.list(limit=1)).tasks[0].id == latest.id
    requests, size = counted.taken()
    assert requests < 15
    assert size < 50_000
    page = await queue.list(TaskStatus.Completed, limit=10)
    assert len(page.tasks) == 10
    assert counted.taken()[1] < 50_000
    oldest = await store.find(Query(oldest=True, limit=1))
    assert oldest.tasks[0].status is TaskStatus.Completed
    assert counted.taken()[1] < 50_000


async def test_counting_costs_the_same_however_many(store, clock):
    queue = Queue(store)
    await queue.submit("greet")
    counted = Counted(store)
    await store.count()
    few = counted.taken()
    await crowd(queue, "greet")
    counted.taken()
    await store.count()
    many = counted.taken()
    assert many[0] == few[0] == 1
    assert many[1] < 2 * few[1]


async def test_what_is_overdue_of_one_status_is_found_without_reading_about_the_other(store, clock):
    queue = Queue(store)
    await queue.submit_many([("greet", None)] * 1000, ttl=LEASE)
    await queue.submit_many([("mail", None)] * 1000)
    assert len(await claim(store, 1000, types=["mail"], lease=2 * LEASE)) == 1000
    late, lapsed = clock() + LEASE, clock() + 2 * LEASE
    counted = Counted(store)
    assert await store.overdue(late, 1000, TaskStatus.Running) == []
    assert counted.taken()[1] < 2000
    assert await store.count_overdue(lapsed, 1000, TaskStatus.Pending, late) == {}
    assert counted.taken()[1] < 2000


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda _: b"{", id="nobody can read"),
        pytest.param(lambda record: record.replace(b'"expires_at"', b'"expired_then"'), id="has no deadline any more"),
    ],
)
async def test_the_deadline_of_a_task_that_is_met_once_is_not_met_again(store, clock, harm):
    task = await Queue(store).submit("job", ttl=1)
    layout = store._db.layout
    key = layout.task(task.id)
    (found,) = await store._db.read([get(key)])
    place, record = unpack(found[0].value)
    await store._client.ask(TXN, Txn(success=[put(key, place + b" " + harm(record))]))
    clock.advance(2)
    deadlines = walk(layout.folder(b"deadline"), after(layout.folder(b"deadline")))
    assert len((await store._db.read([deadlines]))[0]) == 1
    await claim(store, types=["other"])
    assert (await store._db.read([deadlines]))[0] == []
