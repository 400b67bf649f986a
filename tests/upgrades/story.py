"""The story that every fixture tells: tasks in each status, keys, slots, orders, tags, a pause and what pruning leaves.

It is told by the version whose records are to be kept, so it uses only what has been there from the beginning.
"""

import json
from datetime import UTC, datetime, timedelta

import msgspec

from tenure.idempotency import read_reservation
from tenure.queue import Queue
from tenure.stores.base import Piece, Renewal
from tenure.submission import build
from tenure.sweeper import Sweeper
from tenure.task import Progress, decode, encode
from tenure.testing.conformance.steps import alike, brought_to, change, claim_one, complete, fail

NOON = datetime(2026, 1, 28, 12, 0, 0, 123456, tzinfo=UTC)
NEWER = ("keyed", "second", "scheduled", "failed", "completed")
FIELD = {"flavour": {"of": "a newer version"}}


class Clock:
    """Noon, and later when told."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


async def tell(store, clock):
    """Everything that can become of a task."""
    queue = Queue(store)
    pruned = await queue.submit("greet", {"n": 0}, task_id="pruned", idempotency_key="pruned")
    await complete(store, await claim_one(store))
    await Sweeper(store, {"completed": 0}).prune()
    assert await queue.get(pruned.id) is None
    for status in ("failed", "cancelled", "expired", "archived", "completed"):
        task = await brought_to(queue, status, task_id=status, tags=["told", status])
        assert task.status == status
        clock.now += timedelta(seconds=1)
    retrying = await queue.submit("greet", {"text": "snow ☃", "big": 2**60}, task_id="retrying", max_attempts=5)
    await fail(store, await claim_one(store), "ValueError: not yet")
    assert (await queue.get(retrying.id)).attempts == 1
    await queue.submit("greet", ["running"], task_id="running", timeout=60)
    await claim_one(store)
    await queue.submit("greet", task_id="scheduled", delay=3600, priority=3, headers={"trace": "1"})
    await queue.submit("greet", task_id="deadline", ttl=timedelta(days=36500))
    await queue.submit("greet", "first", task_id="first", ordering_key="k")
    await queue.submit("greet", "second", task_id="second", ordering_key="k")
    await queue.submit("greet", {"key": 1}, task_id="keyed", idempotency_key="key", idempotency_ttl=None)
    await queue.submit("greet", task_id="slotted", slot=("summary#user-42", "2026-01-28"))
    await queue.pause("frozen", "for the fixture")


async def tell_more(store):
    """What came later: a handler's word of how far it is, and records with a field that only a newer version knows."""
    (running,) = await store.get(["running"])
    await store.renew([Renewal(running.id, running.fence, timedelta(0), Progress(1, 2, "half"))])
    later = await brought_to(Queue(store), "completed", "later", task_id="later")
    for task_id in NEWER:
        await change(store, task_id, lambda task, _: decode(_newer(encode(task))))
    options = {"idempotency_key": "newer", "idempotency_ttl": None, "task_id": later.id}
    reservation = build("later", {"for": "completed"}, options, await store.now(), 1000).reservation
    record = _newer(msgspec.json.encode(msgspec.structs.replace(reservation, state="creating")))
    await store.restore(Piece(reservations=[read_reservation(record, "newer")]), await store.now())


def _newer(record):
    return msgspec.json.encode(msgspec.json.decode(record) | FIELD)


async def dumped(store):
    """Everything that the store gives out."""
    pieces = [await store.dump(limit=5)]
    while pieces[-1].cursor is not None:
        pieces.append(await store.dump(pieces[-1].cursor, 5))
    return pieces


async def seen(store):
    """What the story left, as everyone can see it."""
    queue = Queue(store)
    page = await queue.list(limit=1000)
    tasks = {task.id: alike(task).to_dict() for task in page.tasks}
    pieces = await dumped(store)
    stones = [stone for piece in pieces for stone in piece.stones]
    keys = [key for piece in pieces for key in piece.reservations]
    return {
        "tasks": tasks,
        "stones": {stone.id: alike(stone).to_dict() for stone in stones},
        "keys": sorted([key.identity, key.task_id] for key in keys),
        "paused": await queue.paused(),
        "counts": {str(status): count for status, count in (await queue.counts()).items() if count},
    }


def as_text(seen_):
    return json.dumps(seen_, indent=1, sort_keys=True, default=str) + "\n"
