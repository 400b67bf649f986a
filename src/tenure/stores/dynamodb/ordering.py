"""Turns of ordering keys: who is next stands in the table itself, and moves in the same transaction as the tasks.

Each key has a partition: a head that names the one task whose turn it is, and a turn for every
open task of the key, in the order of their submits. Only the head stands in the index of what can run.
The head changes by compare-and-swap, so a stale index can delay a task but never let two run.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from tenure.errors import ConcurrentChange
from tenure.stores.base import Change
from tenure.stores.dynamodb.items import is_stone, load, places
from tenure.stores.dynamodb.table import TRIES, Action, token
from tenure.stores.dynamodb.together import Entry, Parts, write_together
from tenure.stores.dynamodb.versions import new_values, unchanged
from tenure.stores.dynamodb.wire import Item, both, equal
from tenure.task import OPEN, Task, TaskStatus

HEAD, TURN = "head", "turn#"


class Head(NamedTuple):
    """Whose turn it is for a key: a task's id, the latest place given, and the mark of the last change.

    No mark means that the key has no open task.
    """

    task_id: str | None = None
    last: str = ""
    mark: str | None = None


def matters(change: Change) -> bool:
    """Whether a change can make it another task's turn."""
    if change.after.ordering_key is None or (change.before.status.ended and change.after.status.ended):
        return False
    return not (change.before.status is TaskStatus.Running and change.after.status is TaskStatus.Running)


async def head_of(parts: Parts, ordering_key: str) -> tuple[Head, list[str]]:
    """The head of a key and the places of its first open tasks."""
    async for items in parts.table.walk(parts.keys.order(ordering_key), page=3):
        head = next((item for item in items if item[parts.table.sk] == HEAD), None)
        turns = [item for item in items if item[parts.table.sk] != HEAD]
        return read_head(head), [f"{turn[parts.table.sk].removeprefix(TURN)} {turn['task']}" for turn in turns]
    return Head(), []


def read_head(item: Item | None) -> Head:
    """The head behind an item."""
    return Head() if item is None else Head(item["task"], item["last"], item["write"])


def move_head(parts: Parts, ordering_key: str, known: Head, new: Head) -> Action:
    """The write that puts one head in the place of another."""
    key = parts.keys.order(ordering_key), HEAD
    condition = equal(write=known.mark)
    if new.task_id is None:
        return parts.table.delete(key, condition)
    return parts.table.put(key, {"task": new.task_id, "last": new.last, "write": new.mark}, condition)


def add_turn(parts: Parts, task: Task, rank: str) -> Action:
    """The write that puts a task in the queue of its key."""
    assert task.ordering_key is not None
    return parts.table.put((parts.keys.order(task.ordering_key), TURN + rank), {"task": task.id})


def drop_turn(parts: Parts, task: Task, rank: str) -> Action:
    """The write that takes a task out of the queue of its key."""
    assert task.ordering_key is not None
    return parts.table.delete((parts.keys.order(task.ordering_key), TURN + rank))


async def swap(parts: Parts, change: Change, now: datetime) -> dict[str, bool]:
    """Make a change, and let the right task of the key be next, in one transaction."""
    task_id, key = change.after.id, change.after.ordering_key
    assert key is not None
    for attempt in range(TRIES):
        if attempt:
            await parts.table.pause(attempt)
        found = await parts.table.get([parts.keys.task(task_id)])
        item = found.get(parts.keys.task(task_id))
        if item is None or is_stone(item) or item.get("version") != change.before.version:
            return {task_id: False}
        rank = parts.ranks.learn(task_id, item)
        actions = await _actions(parts, change, rank, now)
        entry = Entry(actions, change.before, change.after)
        await write_together(parts, [entry])
        if entry.failed is None:
            return {task_id: True}
        if entry.failed[0].code != "None":
            return {task_id: False}
    raise ConcurrentChange(task_id)


async def _actions(parts: Parts, change: Change, rank: str, now: datetime) -> list[Action]:
    after, key = change.after, change.after.ordering_key
    assert key is not None
    head, turns = await head_of(parts, key)
    others = [turn.split(" ", 1) for turn in turns if turn.split(" ", 1)[1] != after.id]
    first_id = others[0][1] if others else None
    others_turn: list[Action] = []
    is_next = head.task_id == after.id
    new = head
    if after.status in OPEN:
        rival = await _rival(parts, head, first_id, after.id)
        waits = rival is not None and (rival[0].status is TaskStatus.Running or rival[1] < rank)
        if rival is not None and is_next and waits:
            # A task from before, which an operator gave another life meanwhile, goes first.
            new = head._replace(task_id=rival[0].id)
            others_turn = [await _unblocked(parts, *rival, now)]
        elif rival is not None and not is_next and not waits:
            new = head._replace(task_id=after.id)
            others_turn = [_blocked(parts, *rival)]
        elif rival is None:
            new = head._replace(task_id=after.id, last=max(head.last, rank))
    elif is_next:
        new, others_turn = await _handed_over(parts, head, first_id, now)
    blocked = after.status in OPEN and new.task_id != after.id
    values = new_values(parts, change, rank, blocked=blocked)
    actions = [
        parts.table.update(parts.keys.task(after.id), values, condition=unchanged(change, rank)),
        *others_turn,
        move_head(parts, key, head, new._replace(mark=token())),
    ]
    if change.before.status in OPEN and after.status not in OPEN:
        actions.append(drop_turn(parts, after, rank))
    elif change.before.status not in OPEN and after.status in OPEN:
        actions.append(add_turn(parts, after, rank))
    return actions


async def leave(parts: Parts, item: Item, now: datetime) -> list[Action]:
    """The writes that take a task that cannot be read out of the queue of its key, and let the next one go."""
    key, rank = item.get("ordering_key"), item.get("all_sk")
    if key is None or rank is None:
        return []
    task_id = parts.keys.task_id(item[parts.table.pk])
    head, turns = await head_of(parts, key)
    drop = parts.table.delete((parts.keys.order(key), TURN + rank))
    if head.task_id != task_id:
        return [drop]
    first_id = next((other for turn in turns if (other := turn.split(" ", 1)[1]) != task_id), None)
    new, others_turn = await _handed_over(parts, head, first_id, now)
    return [drop, *others_turn, move_head(parts, key, head, new._replace(mark=token()))]


async def _handed_over(parts: Parts, head: Head, next_id: str | None, now: datetime) -> tuple[Head, list[Action]]:
    """The head after its task has ended, and the write that lets the next one be found."""
    rival = None if next_id is None else await _rival(parts, Head(next_id), None, "")
    waits = rival is not None and rival[0].status is TaskStatus.Pending
    return head._replace(task_id=next_id), [await _unblocked(parts, *rival, now)] if rival is not None and waits else []


async def _rival(parts: Parts, head: Head, first: str | None, task_id: str) -> tuple[Task, str] | None:
    """The task that is next, or would be if it were not this one's turn; with its place."""
    other = head.task_id if head.task_id not in (None, task_id) else first
    if other is None:
        return None
    found = await parts.table.get([parts.keys.task(other)])
    item = found.get(parts.keys.task(other))
    if item is None or "all_sk" not in item:
        return None
    return load(item, other), parts.ranks.learn(other, item)


async def _unblocked(parts: Parts, task: Task, rank: str, now: datetime) -> Action:
    await parts.lanes.ensure([task], now)
    return _placed(parts, task, rank, blocked=False)


def _blocked(parts: Parts, task: Task, rank: str) -> Action:
    return _placed(parts, task, rank, blocked=True)


async def block(parts: Parts, task_id: str) -> list[Action]:
    """The write that lets a pending task wait."""
    rival = await _rival(parts, Head(task_id), None, "")
    return [_blocked(parts, *rival)] if rival is not None and rival[0].status is TaskStatus.Pending else []


def _placed(parts: Parts, task: Task, rank: str, *, blocked: bool) -> Action:
    """The write that lets a pending task be found, or not; nothing has happened to it, so it makes no version."""
    spots: dict[str, Any] = places(parts.keys, task, rank, blocked=blocked)
    due = {name: spots[name] for name in ("due_pk", "due_sk")}
    condition = both(equal(version=task.version, status=task.status.value))
    return parts.table.update(parts.keys.task(task.id), due, condition=condition)
