"""New tasks go in by a statement that expects nothing to be there; what is there is found all the same."""

import pytest

from tenure import TaskStatus, connect
from tenure.stores.postgres import store as store_module
from tenure.submission import build
from tenure.testing.conformance.steps import claim_one, complete, ids


@pytest.fixture
def careful(monkeypatch):
    """Counts the calls that needed more than the quick statement."""
    calls, insert_plain = [], store_module.insert_plain

    async def counted(*arguments):
        calls.append(arguments)
        return await insert_plain(*arguments)

    monkeypatch.setattr(store_module, "insert_plain", counted)
    return calls


async def test_tasks_with_nothing_but_an_input_take_the_quick_statement(queue, careful):
    await queue.submit("greet", 1, priority=3, delay=5, ttl=60)
    await queue.submit_many([("greet", number) for number in range(10)])
    assert not careful
    await queue.submit("greet", 1, tags=["a"])
    await queue.submit("greet", 1, ordering_key="k")
    assert len(careful) == 2
    assert (await queue.counts())[TaskStatus.Pending] == 13


@pytest.mark.parametrize("options", ["", "?poll_only=true"])
@pytest.mark.parametrize("ended", [False, True])
async def test_an_id_that_is_there_already_is_found_in_one_call(postgres_url, careful, options, ended):
    async with connect(postgres_url + options) as queue:
        made = [build("greet", number, {}, await queue.store.now(), 1000) for number in range(3)]
        await queue.store.insert(made[1:2])
        if ended:
            await complete(queue.store, await claim_one(queue.store))
        again = await queue.store.insert(made)
        assert ids(again) == [each.task.id for each in made]
        assert [task.created for task in again] == [True, False, True]
        assert len(careful) == 1
        counts = await queue.counts()
        assert (counts[TaskStatus.Pending], counts[TaskStatus.Completed]) == ((2, 1) if ended else (3, 0))


@pytest.mark.parametrize("ended", [False, True])
async def test_a_lone_task_that_is_there_already_is_found(queue, careful, ended):
    made = build("greet", 1, {"priority": 3, "delay": 0, "ttl": 60}, await queue.store.now(), 1000)
    (first,) = await queue.store.insert([made])
    assert (first.created, await queue.get(first.id)) == (True, made.task)
    if ended:
        await complete(queue.store, await claim_one(queue.store))
    (again,) = await queue.store.insert([made])
    assert (again.id, again.created, again.status == TaskStatus.Completed) == (first.id, False, ended)
    assert len(careful) == 1


async def test_an_ended_task_from_between_is_no_hindrance(queue, careful):
    """Somebody else's, which was submitted in the same moment and has ended already."""
    made = [build("greet", number, {}, await queue.store.now(), 1000) for number in range(3)]
    await queue.store.insert(made[1:2])
    await complete(queue.store, await claim_one(queue.store))
    others = await queue.store.insert([made[0], made[2]])
    assert [task.created for task in others] == [True, True]
    assert len(careful) == 1
