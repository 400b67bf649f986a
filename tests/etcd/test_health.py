"""What an operator is told, and what happens to records that somebody has damaged."""

import pytest

from tenure.doctor import examine
from tenure.errors import DamagedRecord
from tenure.queue import Queue
from tenure.stores.etcd.client import TXN
from tenure.stores.etcd.health import known_fault
from tenure.stores.etcd.requests import Txn, put
from tenure.testing.conformance.steps import claim, claim_one, everything, ids


async def damage(store, task_id, record=b"not JSON"):
    place = store._db.memory[task_id].place
    await store._client.ask(TXN, Txn(success=[put(store._db.layout.task(task_id), place + b" " + record)]))


async def test_the_store_tells_about_itself(store):
    await Queue(store).submit("greet")
    about = await store.about()
    assert about["store"] == "etcd 3.5.1"
    assert about["prefix"].startswith("tests/")
    assert int(about["revision"]) > 0
    assert "alarms" not in about
    assert "upgrade" in about["warning"]


async def test_the_doctor_finds_a_sound_store_and_names_a_version_that_is_not(etcd_url):
    from tenure import connect

    async with connect(etcd_url) as queue:
        findings = {finding.name: finding for finding in [finding async for finding in examine(queue)]}
        assert await queue.counts() == dict.fromkeys(await queue.counts(), 0), "nothing stays behind"
    assert findings["warning"].level == "warning"
    for name in ("create if absent", "one claim wins", "compare and swap"):
        assert findings[name].level == "ok", findings[name]


@pytest.mark.parametrize(
    ("version", "faulty"),
    [("3.5.0", True), ("3.5.5", True), ("3.5.6", False), ("3.6.1", False), ("3.4.21", True), ("3.4.23", False),
     ("3.3.25", True), ("3.6.0-rc.1", False)],
)  # fmt: skip
def test_versions_that_their_own_project_warns_of(version, faulty):
    assert (known_fault(version) is not None) == faulty


async def test_a_damaged_record_is_set_aside_and_the_others_go_on(store, clock):
    queue = Queue(store)
    broken, sound = await queue.submit("greet", 1), await queue.submit("greet", 2)
    await damage(store, broken.id, b'{"id":"x","task_type":"greet"')
    assert ids(await claim(store, 10)) == [sound.id]
    assert [note.key for note in await store.notes("damaged")] == [broken.id]
    assert ids(await everything(store)) == [sound.id]
    with pytest.raises(DamagedRecord, match=broken.id):
        await store.get([broken.id])
    assert await claim(store, 10) == []


async def test_a_damaged_first_task_of_an_ordering_key_lets_the_next_go(store):
    queue = Queue(store)
    broken, follower, _ = [await queue.submit("greet", number, ordering_key="k") for number in range(3)]
    await store._client.ask(TXN, Txn(success=[put(store._db.layout.task(broken.id), b"\x00\xff")]))
    assert ids(await claim(store, 10)) == [follower.id]


async def test_a_damaged_record_of_a_running_task_does_not_stop_the_sweep(store, clock):
    queue = Queue(store)
    broken = await queue.submit("greet", 1)
    await claim_one(store)
    await damage(store, broken.id)
    other = await queue.submit("greet", ttl=10)
    clock.advance(60)
    assert ids(await store.overdue(clock(), 10)) == [other.id]
    assert [note.key for note in await store.notes("damaged")] == [broken.id]


async def test_a_damaged_record_is_told_by_a_dump(store):
    queue = Queue(store)
    broken, sound = await queue.submit("greet", 1), await queue.submit("greet", 2)
    await damage(store, broken.id)
    piece = await store.dump()
    assert (ids(piece.tasks), piece.damaged) == ([sound.id], [broken.id])


async def test_a_due_entry_whose_record_is_gone_is_cleared_away(store):
    queue = Queue(store)
    gone, sound = await queue.submit("greet", 1), await queue.submit("greet", 2)
    from tenure.stores.etcd.requests import delete

    await store._client.ask(TXN, Txn(success=[delete(store._db.layout.task(gone.id))]))
    assert ids(await claim(store, 10)) == [sound.id]
    assert await claim(store, 10) == []
