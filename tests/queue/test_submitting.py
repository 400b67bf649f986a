"""Submits: durable when they return, together when they happen together."""

import asyncio

import pytest

from tenure import IdempotencyConflict, InvalidInput, StoreUnavailable, TaskStatus, connect
from tenure.queue import BREATH, Queue
from tenure.testing import Fault, FaultyStore


async def test_a_batch_is_what_it_was_when_it_was_given(queue):
    """Others have their turns while a large one is checked."""
    batch = [("job", number) for number in range(5000)]
    submitted = asyncio.create_task(queue.submit_many(batch))
    await asyncio.sleep(0)
    batch.clear()
    assert [task.input for task in await submitted] == list(range(5000))


async def test_submits_made_together_share_few_writes_and_each_gets_its_own_task(queue):
    counted = Queue(FaultyStore(queue.store))
    tasks = await asyncio.gather(*(counted.submit("job", number) for number in range(500)))
    assert [task.input for task in tasks] == list(range(500))
    assert len({task.id for task in tasks}) == 500
    assert counted.store.calls["insert"] <= 5
    assert (await queue.counts())[TaskStatus.Pending] == 500


async def test_a_large_batch_lets_others_have_their_turns():
    async with connect("memory://") as queue:
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        await queue.submit_many([("job", number) for number in range(5 * BREATH)])
        beside.cancel()
        assert turns >= 4
        assert (await queue.counts())[TaskStatus.Pending] == 5 * BREATH


async def test_a_lone_submit_goes_at_once(queue):
    counted = Queue(FaultyStore(queue.store))
    for number in range(3):
        await counted.submit("job", number)
    assert counted.store.calls["insert"] == 3


async def test_a_refused_submit_does_not_spoil_those_that_travel_with_it(queue):
    await queue.submit("job", 1, idempotency_key="k")
    answers = await asyncio.gather(
        queue.submit("job", 1),
        queue.submit("job", 2, idempotency_key="k"),
        queue.submit("job", 3),
        return_exceptions=True,
    )
    assert isinstance(answers[1], IdempotencyConflict)
    assert [answers[0].input, answers[2].input] == [1, 3]
    assert (await queue.counts())[TaskStatus.Pending] == 3


async def test_when_a_shared_write_fails_everybody_is_told(queue):
    faulty = Queue(FaultyStore(queue.store, plan=[Fault("insert", "before", nth=1)]))
    answers = await asyncio.gather(*(faulty.submit("job", number) for number in range(5)), return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert (await queue.counts())[TaskStatus.Pending] == 0


async def test_a_caller_that_gives_up_does_not_spoil_the_others(queue):
    calls = [asyncio.create_task(queue.submit("job", number)) for number in range(10)]
    await asyncio.sleep(0)
    calls[3].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answer.input for index, answer in enumerate(answers) if index != 3] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


async def test_closing_waits_for_submits_under_way(url, clock):
    queue = await connect(url, clock=clock)
    calls = [asyncio.create_task(queue.submit("job", number)) for number in range(100)]
    await asyncio.sleep(0)
    await queue.close()
    assert all(task.created for task in await asyncio.gather(*calls))


async def test_a_batch_is_all_or_nothing(queue):
    await queue.submit("job", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await queue.submit_many([("job", 5), ("job", 2, {"idempotency_key": "k"}), ("job", 6)])
    assert (await queue.counts())[TaskStatus.Pending] == 1


async def test_a_batch_with_one_bad_input_writes_nothing(queue):
    with pytest.raises(InvalidInput, match="not JSON"):
        await queue.submit_many([("job", 1), ("job", object())])
    assert (await queue.counts())[TaskStatus.Pending] == 0


async def test_options_of_a_batch_hold_for_all_and_each_may_have_its_own(queue):
    tasks = await queue.submit_many([("job", 1), ("job", 2, {"priority": 9})], priority=3, tags=["batch"])
    assert [(task.priority, task.tags) for task in tasks] == [(3, ("batch",)), (9, ("batch",))]
    assert await queue.submit_many([]) == []


@pytest.mark.parametrize("entry", ["job", ("job",), ("job", 1, {}, 4), None])
async def test_a_batch_takes_pairs(queue, entry):
    with pytest.raises(InvalidInput, match="submit_many takes"):
        await queue.submit_many([entry])


async def test_a_batch_may_repeat_a_key_or_an_id_within_itself(queue):
    tasks = await queue.submit_many(
        [
            ("job", 1, {"idempotency_key": "k"}),
            ("job", 1, {"idempotency_key": "k"}),
            ("job", 2, {"task_id": "mine"}),
            ("job", 3, {"task_id": "mine"}),
        ]
    )
    assert [task.created for task in tasks] == [True, False, True, False]
    assert (tasks[0].id, tasks[2].input) == (tasks[1].id, tasks[3].input)


async def test_enqueue_is_submit(queue):
    assert (await queue.enqueue("job", 1, priority=2)).priority == 2


async def test_connect_takes_its_address_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TENURE_URL", f"sqlite:///{tmp_path}/by-environment.db")
    async with connect() as queue:
        await queue.submit("job", 1)
    assert (tmp_path / "by-environment.db").exists()
    monkeypatch.delenv("TENURE_URL")
    monkeypatch.chdir(tmp_path)
    queue = await connect()
    await queue.close()
    assert (tmp_path / "tenure.db").exists()
