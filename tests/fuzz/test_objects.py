"""A harmed object of a bucket is read, or called damaged; it stops no worker and no task of another object."""

import asyncio
import contextlib
import json
from pathlib import Path

import msgspec
from budget import EXAMPLES, FEW
from hypothesis import strategies as st
from objects import object_harms
from places import Place

from tenure import DamagedRecord, StoreError, Worker
from tenure.queue import Queue
from tenure.stores.s3 import S3Store
from tenure.stores.s3.bodies import decode
from tenure.stores.s3.shelves import in_parallel
from tenure.sweeper import Sweeper

KEPT = json.loads((Path(__file__).parent.parent / "upgrades/format-1/s3.json").read_text())
BODIES = {name: msgspec.json.encode(value) for name, value in KEPT.items() if name != "tenure.json"}
FOLDERS = ("tasks/", "tasks/000/k-", "tasks/000/-pause", "done/", "idempotency/", "ids/", "summaries/")
RUNNABLE = {"running", "retrying", "deadline", "first", "second", "keyed", "slotted", "scheduled"}


class Objects(Place):
    share = 0.3
    always_the_same = EXAMPLES <= FEW


def inside(name):
    """The tasks of an object."""
    return {entry["task"]["id"] for entry in KEPT[name].get("tasks", ())}


def cannot_be_read(name, body):
    try:
        return bool(decode(name, "", body).unread)
    except DamagedRecord:
        return True


@contextlib.asynccontextmanager
async def opened(url):
    """A store that takes no time to give up."""
    store = S3Store(url)
    store.client.pauses = (0.0, 0.0)
    try:
        async with asyncio.timeout(20):
            yield store
    finally:
        await store.close()


async def test_a_harmed_object_stops_no_worker_and_no_task_of_another(new_s3):
    async def run(store, name, body):
        await in_parallel(lambda pair: store.bucket.create(*pair, "nonce"), list((BODIES | {name: body}).items()))
        queue, ran = Queue(store), []
        worker = Worker(queue, poll=0.01)

        @worker.task("greet")
        async def greet(input, context):
            ran.append(context.task.id)

        await worker.run(until_idle=True)
        missing = RUNNABLE - inside(name) - set(ran)
        assert not missing, f"{missing} did not run beside {name} = {body}"
        await queue.list(limit=1000)
        await Sweeper(store).prune()
        piece = await store.dump(limit=1000)
        while piece.cursor is not None:
            piece = await store.dump(piece.cursor, limit=1000)
        stats = await queue.stats()
        if inside(name) and cannot_be_read(name, body):
            assert stats.damaged, f"nobody was told of {name} = {body}"

    for folder, number, harm in Objects().some(st.tuples(st.sampled_from(FOLDERS), st.integers(0, 99), object_harms())):
        names = [name for name in BODIES if name.startswith(folder)]
        name = names[number % len(names)]
        async with opened(new_s3()) as store:
            await run(store, name, harm(BODIES[name]))


async def test_a_harmed_layout_is_understood_or_refused_in_words(new_s3):
    body = msgspec.json.encode(KEPT["tenure.json"])
    for harm in Objects().some(object_harms()):
        url = new_s3()
        async with opened(url) as store:
            layout = await store.bucket.read("tenure.json")
            await store.bucket.replace("tenure.json", harm(body), "nonce", layout.etag)
        async with opened(url) as store:
            try:
                await store.count()
            except StoreError as error:
                assert "tenure.json" in str(error) or "format" in str(error), error  # noqa: PT017 - some are fine
