"""Changing many tasks: few calls of the store, and what is wrong with one is told of that one alone."""

import pytest

from tenure import lifecycle
from tenure.changing import BATCH, Changing
from tenure.errors import CannotCancel, ConcurrentChange, DamagedRecord, StoreUnavailable, StoreUnusable, TaskNotFound
from tenure.observe.events import Events, Subscriber
from tenure.stores.memory import MemoryStore
from tenure.submission import Submission
from tenure.task import TaskStatus

from .builders import NOW, claimed, completed, pending, replace


class Store(MemoryStore):
    """Counts its calls, and has trouble with the tasks that it is told to have trouble with."""

    def __init__(self):
        super().__init__(lambda: NOW)
        self.reads, self.writes = [], []
        self.unreadable, self.unwritable = {}, {}
        self.before_write = None

    async def get(self, ids):
        self.reads.append(len(ids))
        for task_id in ids:
            if task_id in self.unreadable:
                raise self.unreadable[task_id]
        return await super().get(ids)

    async def swap(self, changes):
        self.writes.append(len(changes))
        for change in changes:
            if change.after.id in self.unwritable:
                raise self.unwritable[change.after.id]
        if self.before_write is not None:
            await self.before_write()
        return await super().swap(changes)


class Heard(Subscriber):
    """Keeps the ids of what it was told."""

    def __init__(self):
        self.ids = []

    def happened(self, events):
        self.ids += [event.task.id for event in events]


async def filled(*ids):
    store = Store()
    await store.insert([Submission(pending(id=task_id)) for task_id in ids])
    return store


def cancel(task, now):
    return lifecycle.cancel(task, now, "enough", "ada")


async def test_many_are_read_and_written_together():
    ids = [str(number) for number in range(2 * BATCH + 1)]
    store = await filled(*ids)
    outcomes = await Changing(store, Events(), cancel).change(ids)
    assert [outcomes[task_id].status for task_id in ids] == [TaskStatus.Cancelled] * len(ids)
    assert store.reads == store.writes == [BATCH, BATCH, 1]


async def test_what_need_not_change_is_not_written():
    store = await filled("a")
    first = await Changing(store, Events(), cancel).change(["a", "a"])
    assert await Changing(store, Events(), cancel).change(["a"]) == first
    assert store.writes == [1]


async def test_one_that_the_rule_refuses_is_told_of_that_one_alone():
    store = await filled("a", "b")
    store._tasks["a"] = completed(id="a")
    outcomes = await Changing(store, Events(), cancel).change(["a", "b"])
    assert type(outcomes["a"]) is CannotCancel
    assert outcomes["b"].status is TaskStatus.Cancelled


async def test_one_that_another_changed_meanwhile_is_read_and_decided_again():
    store = await filled("a", "b")

    async def faster():
        store.before_write = None
        store._tasks["a"] = claimed(store._tasks["a"])

    store.before_write = faster
    outcomes = await Changing(store, Events(), cancel).change(["a", "b"])
    assert outcomes["b"].status is TaskStatus.Cancelled
    assert outcomes["a"].status is TaskStatus.Running
    assert outcomes["a"].cancel_requested
    assert store.reads == [2, 1]


async def test_one_that_others_keep_changing_is_given_up():
    store = await filled("a")

    async def faster():
        task = store._tasks["a"]
        store._tasks["a"] = replace(task, version=task.version + 1)

    store.before_write = faster
    outcomes = await Changing(store, Events(), cancel).change(["a"])
    assert type(outcomes["a"]) is ConcurrentChange


async def test_one_that_is_not_there_or_cannot_be_read_is_told_of_that_one_alone():
    store = await filled("a", "b", "c", "d")
    store.unreadable["c"] = DamagedRecord("c", "truncated")
    outcomes = await Changing(store, Events(), cancel).change(["a", "b", "c", "nobody", "d"])
    assert {task_id: outcomes[task_id].status for task_id in "abd"} == dict.fromkeys("abd", TaskStatus.Cancelled)
    assert outcomes["c"] is store.unreadable["c"]
    assert type(outcomes["nobody"]) is TaskNotFound


async def test_one_that_cannot_be_written_is_told_of_that_one_alone():
    store = await filled("a", "b", "c")
    store.unwritable["b"] = StoreUnusable("This record is locked.")
    outcomes = await Changing(store, Events(), cancel).change(["a", "b", "c"])
    assert outcomes["b"] is store.unwritable["b"]
    assert [outcomes[task_id].status for task_id in "ac"] == [TaskStatus.Cancelled] * 2


@pytest.mark.parametrize("took_effect", [True, False])
async def test_changes_whose_answer_was_lost_are_in_doubt_until_the_store_shows_them(took_effect):
    store, events, heard = await filled("a"), Events(), Heard()
    events.subscribe(heard)
    store.unwritable["a"] = StoreUnavailable("Nobody answers.")
    outcomes = await Changing(store, events, cancel).change(["a"])
    assert outcomes == {"a": store.unwritable["a"]}
    events.flush()
    assert heard.ids == []
    if took_effect:
        store._tasks["a"] = cancel(store._tasks["a"], NOW)
    await events.resolve(store)
    events.flush()
    assert heard.ids == (["a"] if took_effect else [])


async def test_what_was_changed_is_told_once():
    store, events, heard = await filled("a", "b"), Events(), Heard()
    events.subscribe(heard)
    await Changing(store, events, cancel).change(["a", "b"])
    await Changing(store, events, cancel).change(["a", "b"])
    events.flush()
    assert heard.ids == ["a", "b"]
