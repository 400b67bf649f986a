"""Throttling, errors inside the server, lost and cut answers: nothing is lost, and nothing is done twice."""

import asyncio
import random

import pytest

from tenure.errors import PartlySubmitted, StoreUnavailable
from tenure.queue import Queue
from tenure.stores.base import Hold, Note
from tenure.stores.dynamodb.inserting import Insert
from tenure.task import TaskStatus
from tenure.testing.aws import Fault, FaultyTransport
from tenure.testing.checker import check
from tenure.testing.conformance.steps import claim, claim_one, complete, everything, fail, renew


@pytest.fixture
def server(dynoxide):
    """One of the servers is enough here: what is tried happens on this side of the line."""
    return dynoxide


EVERY_FAULT = pytest.mark.parametrize(
    "fault", [fault for fault in Fault if fault is not Fault.Late], ids=lambda f: f.name
)


async def counted(store):
    return {(count.type, count.status.value): count.count for count in await store.count()}


@EVERY_FAULT
async def test_a_submit_makes_one_task(store, queue, line, fault):
    line.expect("TransactWriteItems", fault)
    task = await queue.submit("greet", 1, idempotency_key="k")
    assert line.transport.happened
    assert task.created
    assert await everything(store) == [task]
    assert not (await queue.submit("greet", 1, idempotency_key="k")).created
    assert await counted(store) == {("greet", "pending"): 1}


@EVERY_FAULT
async def test_a_claim_whose_answer_is_lost_is_still_the_claim_of_its_worker(store, queue, line, fault):
    task = await queue.submit("greet")
    line.expect("UpdateItem", fault)
    held = await claim_one(store)
    assert line.transport.happened
    assert (held.id, held.fence, held.version) == (task.id, 1, 2)
    assert await everything(store) == [held]


@EVERY_FAULT
async def test_an_ending_is_written_and_counted_once(store, queue, line, fault):
    await queue.submit("greet")
    held = await claim_one(store)
    line.expect("TransactWriteItems", fault)
    done = await complete(store, held, "well")
    assert line.transport.happened
    assert [(task.status, task.output) for task in await everything(store)] == [(TaskStatus.Completed, "well")]
    assert done.version == 3
    assert await counted(store) == {("greet", "completed"): 1}


@EVERY_FAULT
async def test_a_failure_is_counted_as_one_attempt(store, queue, line, fault):
    await queue.submit("greet")
    held = await claim_one(store)
    line.expect("UpdateItem", fault)
    again = await fail(store, held)
    assert line.transport.happened
    assert (again.attempts, again.version) == (1, 3)
    assert await everything(store) == [again]


@EVERY_FAULT
async def test_a_renewal_holds(store, queue, line, clock, fault):
    await queue.submit("greet")
    held = await claim_one(store)
    clock.advance(10)
    line.expect("UpdateItem", fault)
    assert await renew(store, held) is Hold.Held
    clock.advance(25)
    assert await claim(store) == []


@EVERY_FAULT
async def test_the_turn_of_an_ordering_key_is_passed_on_once(store, queue, line, fault):
    first, second = [await queue.submit("greet", ordering_key="k") for _ in range(2)]
    held = await claim_one(store)
    line.expect("TransactWriteItems", fault)
    await complete(store, held)
    assert line.transport.happened
    assert held.id == first.id
    assert [task.id for task in await claim(store, 5)] == [second.id]


@EVERY_FAULT
async def test_a_note_has_one_version_more_or_is_gone(store, line, fault):
    line.expect("UpdateItem", fault)
    assert await store.put_note(Note("kind", "key", {"n": 1}), if_version=0)
    (note,) = await store.notes("kind")
    assert note.version == 1
    line.expect("DeleteItem", fault)
    assert await store.put_note(Note("kind", "key"), if_version=1)
    assert await store.notes("kind") == []


@EVERY_FAULT
async def test_reads_are_made_again(store, queue, line, fault):
    task = await queue.submit("greet")
    for operation in ("BatchGetItem", "Query"):
        line.expect(operation, fault)
    assert await queue.get(task.id) == task
    assert await everything(store) == [task]
    assert not line.wishes


async def test_reads_that_a_server_left_undone_are_asked_for_again(store, queue, monkeypatch):
    tasks = await queue.submit_many([("greet", number) for number in range(30)])
    sent = store.table.send

    async def only_ten(operation, body):
        if operation != "BatchGetItem":
            return await sent(operation, body)
        ((table, wanted),) = body["RequestItems"].items()
        first, rest = wanted["Keys"][:10], wanted["Keys"][10:]
        answer = await sent(operation, {**body, "RequestItems": {table: {**wanted, "Keys": first}}})
        return answer | ({"UnprocessedKeys": {table: {**wanted, "Keys": rest}}} if rest else {})

    monkeypatch.setattr(store.table, "send", only_ten)
    assert await store.get([task.id for task in tasks]) == tasks


async def test_a_producer_learns_exactly_which_tasks_of_a_long_batch_were_created(store, queue, line):
    line.expect("TransactWriteItems", None, *[Fault.Throttled] * 8)
    with pytest.raises(PartlySubmitted) as caught:
        await queue.submit_many([("greet", number) for number in range(150)])
    there = await everything(store, page=1000)
    assert 0 < len(there) < 150
    assert {task.id for task in caught.value.created} == {task.id for task in there}


async def test_a_key_that_is_taken_while_a_long_batch_is_written_is_told_with_what_was_created(
    store, queue, monkeypatch
):
    write, batch = Insert._pass, [("greet", n, {"idempotency_key": f"{n}"}) for n in range(120)]

    async def after_another(insert, left, seen, **how):
        monkeypatch.setattr(Insert, "_pass", write)
        await queue.submit("greet", "another input", idempotency_key="119")
        await write(insert, left, seen, **how)

    monkeypatch.setattr(Insert, "_pass", after_another)
    with pytest.raises(PartlySubmitted, match="key '119'") as caught:
        await queue.submit_many(batch)
    assert len(caught.value.created) == 119
    assert {task.id for task in caught.value.created} < {task.id for task in await everything(store)}


async def test_a_batch_of_one_transaction_is_all_or_nothing(store, queue, line):
    line.expect("TransactWriteItems", *[Fault.Throttled] * 8)
    with pytest.raises(StoreUnavailable):
        await queue.submit_many([("greet", number) for number in range(50)])
    assert await everything(store) == []
    assert len(await queue.submit_many([("greet", number) for number in range(50)])) == 50


async def test_a_long_batch_goes_in_parallel_with_a_bounded_number_of_requests(open_store):
    store = await open_store(connections=4)
    under_way, most = 0, 0
    exchange = store.client.transport.exchange

    class Watched:
        async def exchange(self, *words):
            nonlocal under_way, most
            under_way += 1
            try:
                return await exchange(*words)
            finally:
                most, under_way = max(most, under_way), under_way - 1

        async def close(self):
            pass

    inner, store.client.transport = store.client.transport, Watched()
    tasks = await Queue(store).submit_many([("greet", number) for number in range(600)])
    store.client.transport = inner
    assert len({task.id for task in tasks}) == 600
    assert 1 < most <= 64


async def test_two_transactions_that_meet_both_take_effect(store, queue, monkeypatch):
    """What DynamoDB calls a conflict is answered by trying again."""
    sent, left = store.table.send, [5]

    async def meeting_another(operation, body):
        if operation == "TransactWriteItems" and left[0]:
            left[0] -= 1
            from tenure.stores.dynamodb.trouble import Cancelled, Reason

            raise Cancelled([Reason("TransactionConflict"), Reason("None")])
        return await sent(operation, body)

    monkeypatch.setattr(store.table, "send", meeting_another)
    task = await queue.submit("greet")
    assert left == [0]
    assert await everything(store) == [task]


@pytest.mark.parametrize("seed", range(3))
async def test_no_promise_breaks_when_any_request_may_be_lost_or_late(open_store, clock, seed):
    dice = random.Random(seed)
    stores = [await open_store() for _ in range(3)]
    faults = list(Fault)
    for each in stores:
        each.client.transport = FaultyTransport(
            each.client.transport, lambda *_: dice.choice(faults) if dice.random() < 0.15 else None
        )

    async def insist(call):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0)

    async def produce(store, number):
        queue = Queue(store)
        return [
            await insist(lambda n=n: queue.submit("greet", n, idempotency_key=f"{n}", ordering_key=f"k{n % 3}"))
            for n in range(number, number + 6)
        ]

    produced = await asyncio.gather(*(produce(each, number) for number, each in enumerate(stores)))
    acknowledged = {task.id for tasks in produced for task in tasks}
    assert len(acknowledged) == 8

    async def work(store, name):
        for _ in range(12):
            for held in await insist(lambda: claim(store, 2, by=name)):
                await insist(lambda held=held: complete(store, held, held.input))

    await asyncio.gather(*(work(each, f"w{number}") for number, each in enumerate(stores)))
    for each in stores:
        each.client.transport = each.client.transport.inner
    clock.advance(60)
    while held := await claim(stores[0], 10):
        for each in held:
            await complete(stores[0], each)
    tasks = await everything(stores[0])
    assert check(tasks, list(acknowledged), all_ended=True) == []
    assert await counted(stores[0]) == {("greet", "completed"): 8}
