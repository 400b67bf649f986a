"""Harmed notes and harmed records of keys stop no worker and no task. On S3 they are objects, as harmed in `test_objects.py`."""

import asyncio

import pytest
from harm import harms
from places import PLACES

from tenure import DamagedRecord, IdempotencyConflict, Task, Worker, connect
from tenure.stores.base import PAUSE, WORKER, Note
from tenure.submission import build

KINDS = [kind for kind in PLACES if kind != "s3"]


def worker_of(queue, ran, **options):
    worker = Worker(queue, poll=0.01, **options)

    @worker.task("job")
    async def job(input, context):
        ran.append(context.task.id)

    return worker


@pytest.mark.parametrize("kind", KINDS)
async def test_a_harmed_note_stops_no_worker_and_can_be_written_again(kind, request, tmp_path):
    place = PLACES[kind](request, tmp_path)
    pause, sign_of_life = Note(PAUSE, "mail"), Note(WORKER, "w0", {"id": "w0", "host": "h", "pid": 1})
    async with connect(place.url) as queue:
        for harm in place.some(harms()):
            ran = []
            await queue.pause("mail", "holiday", resume_after=3600)
            await queue.store.put_note(sign_of_life)
            for note in (pause, sign_of_life):
                await place.harm_note(queue.store, note, harm)
            here, there = await queue.submit("job"), await queue.submit("job", queue="mail")
            async with asyncio.timeout(20):
                await worker_of(queue, ran).run(until_idle=True)
                assert ran == [here.id]
                await queue.stats()
                await queue.workers(gone=True)
                await queue.paused()
                await queue.resume("mail")
                await worker_of(queue, ran, queues=["mail"]).run(until_idle=True)
            assert ran == [here.id, there.id]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_queue_whose_pause_nobody_can_read_stays_paused_until_it_is_resumed(kind, request, tmp_path):
    place = PLACES[kind](request, tmp_path)
    async with connect(place.url) as queue:
        await queue.pause("default", "holiday", resume_after=0)
        await place.harm_note(queue.store, Note(PAUSE, "default"), lambda _: b"\xff\x00{")
        task, ran = await queue.submit("job"), []
        async with asyncio.timeout(20):
            await worker_of(queue, ran).run(until_idle=True)
            assert ran == []
            assert await queue.paused() == {"default": ""}
            await queue.resume()
            await worker_of(queue, ran).run(until_idle=True)
        assert ran == [task.id]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_harmed_record_of_a_key_is_in_the_way_of_no_other(kind, request, tmp_path):
    place = PLACES[kind](request, tmp_path)
    async with connect(place.url) as queue:
        for turn, harm in enumerate(place.some(harms())):
            ran, key = [], f"key {turn}"
            first = await queue.submit("job", turn, idempotency_key=key)
            submission = build("job", turn, {"idempotency_key": key}, await queue.now(), queue.store.size_limit)
            await place.harm_key(queue.store, submission.reservation, harm)
            again, other = await asyncio.gather(
                queue.submit("job", turn, idempotency_key=key),
                queue.submit("job", turn, idempotency_key=f"other {turn}"),
                return_exceptions=True,
            )
            assert isinstance(again, Task | DamagedRecord | IdempotencyConflict), again
            assert other.created
            async with asyncio.timeout(20):
                await worker_of(queue, ran).run(until_idle=True)
            assert {first.id, other.id} <= set(ran)
