"""Records of a newer version, with fields that this one does not know, keep them through everything."""

import json
from datetime import timedelta

import pytest

from tenure import lifecycle
from tenure.queue import Queue
from tenure.stores.base import Change, Piece, Renewal
from tenure.task import Progress, decode, encode
from tenure.testing.conformance.steps import LEASE, claim, complete, fail

NEWER = {"colour": "blue", "shape of it": {"corners": [1, 2, None]}, "ü": 0.5}


def unknown(task):
    return {name: value for name, value in task.to_dict().items() if name in NEWER}


@pytest.fixture
async def newer(store, clock):
    """A task as a newer version has written it."""
    old = lifecycle.submit(now=clock(), id="newer", type="greet", available_at=clock(), expires_at=clock() + 9 * LEASE)
    task = decode(json.dumps(json.loads(encode(old)) | NEWER).encode())
    await store.restore(Piece(tasks=[task]), clock())
    return task


async def test_a_stored_task_keeps_fields_of_a_newer_version(store, newer):
    (task,) = await store.get([newer.id])
    assert unknown(task) == NEWER
    assert task == newer


async def test_they_survive_every_step_of_its_life(store, newer, clock):
    queue = Queue(store)
    (held,) = await claim(store)
    assert (held.id, unknown(held)) == (newer.id, NEWER)
    await store.renew([Renewal(held.id, held.fence, LEASE, Progress(1, 2))])
    assert unknown(await queue.get(held.id)) == NEWER
    await fail(store, await queue.get(held.id))
    clock.advance(60)
    (again,) = await claim(store)
    clock.advance(LEASE.total_seconds())
    (recovered,) = await claim(store)
    assert recovered.fence > again.fence
    done = await complete(store, recovered)
    assert unknown(done) == unknown(await queue.get(held.id)) == NEWER
    await queue.archive(held.id)
    assert unknown(await queue.get(held.id)) == NEWER


async def test_a_cancelled_and_retried_one_keeps_them(store, newer):
    queue = Queue(store)
    await queue.cancel(newer.id)
    assert unknown(await queue.retry(newer.id)) == NEWER
    assert unknown(await queue.get(newer.id)) == NEWER


async def test_listings_and_exports_show_them(store, newer):
    assert [(task.id, unknown(task)) for task in (await Queue(store).list()).tasks] == [(newer.id, NEWER)]
    assert [unknown(task) for task in (await store.dump()).tasks] == [NEWER]


async def test_it_runs_among_others(store, newer):
    queue = Queue(store)
    other = await queue.submit("greet")
    assert {task.id for task in await claim(store, 2)} == {newer.id, other.id}


async def test_a_change_that_was_computed_from_it_is_found_again(store, newer, clock):
    after = lifecycle.cancel(newer, clock() + timedelta(seconds=1))
    assert await store.swap([Change(newer, after)]) == [True]
    (stored,) = await store.get([newer.id])
    assert lifecycle.took_effect(after, stored)
    assert stored.to_dict() == after.to_dict()
