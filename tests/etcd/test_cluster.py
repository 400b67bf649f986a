"""A cluster of three on its bad days: no acknowledged task is lost, none completes twice, each key keeps its order."""

import asyncio
import json
import signal

import pytest
from load import Load

from tenure import connect
from tenure.errors import StoreFull, StoreUnavailable
from tenure.stores.etcd.client import TXN
from tenure.stores.etcd.requests import Txn, put
from tenure.testing.etcd import EtcdCluster


async def test_the_leader_is_killed_three_times_during_load(cluster):
    async with Load(cluster.url()) as load:
        await load.goes_on()
        for _ in range(3):
            leader = await asyncio.to_thread(cluster.leader)
            leader.stop(signal.SIGKILL)
            await load.goes_on()
            cluster.start_member(leader)
            await asyncio.to_thread(cluster.wait_until_healthy)
        await load.finish()
        await load.account()


async def test_a_minority_that_is_cut_off_changes_nothing_and_the_others_go_on(cluster):
    async with Load(cluster.url()) as load:
        await load.goes_on()
        alone = await asyncio.to_thread(cluster.leader)
        await asyncio.to_thread(cluster.network.isolate, alone)
        await load.goes_on()
        async with connect(f"etcd://{alone.endpoint}/tenure?timeout=2") as queue:
            with pytest.raises(StoreUnavailable):
                await queue.submit("work", task_id="never")
        cluster.network.heal()
        await load.goes_on()
        assert await load.queues[0].get("never") is None
        await load.finish()
        await load.account()


async def test_when_the_majority_is_gone_nothing_is_acknowledged_and_when_it_is_back_work_goes_on(cluster):
    async with Load(cluster.url("tenure", "?timeout=2")) as load:
        await load.goes_on()
        for member in cluster.members[:2]:
            member.stop(signal.SIGKILL)
        async with connect(cluster.url("tenure", "?timeout=1")) as queue:
            with pytest.raises(StoreUnavailable):
                await queue.submit("work", task_id="nobody")
        for member in cluster.members[:2]:
            cluster.start_member(member)
        loop = asyncio.get_running_loop()
        back = loop.time()
        await load.goes_on(20)
        assert loop.time() - back < 20
        await load.finish()
        await load.account()


async def test_a_leader_that_stands_still_for_a_while_does_no_harm(cluster):
    async with Load(cluster.url()) as load:
        await load.goes_on()
        leader = await asyncio.to_thread(cluster.leader)
        leader.freeze()
        try:
            await load.goes_on()
        finally:
            leader.thaw()
        await load.goes_on()
        await load.finish()
        await load.account()


def revision_of(cluster):
    status = cluster.control("endpoint", "status", "-w", "json", member=cluster.members[0])
    return str(json.loads(status)[0]["Status"]["header"]["revision"])


async def test_compacting_and_defragmenting_under_load(cluster):
    async with Load(cluster.url()) as load:
        await load.goes_on()
        for _ in range(3):
            await asyncio.to_thread(cluster.control, "compact", revision_of(cluster))
            await asyncio.to_thread(cluster.control, "defrag")
            await load.goes_on(20)
        await load.finish()
        await load.account()


async def test_a_full_quota_is_said_plainly_and_work_goes_on_once_there_is_room():
    with EtcdCluster(1, "--quota-backend-bytes", "16000000") as cluster:
        async with connect(cluster.url()) as queue:
            for number in range(20):
                await queue.store._client.ask(TXN, Txn(success=[put(b"junk/%d" % number, b"x" * 400_000)]))
            acknowledged = []

            async def submit_until_full():
                while True:
                    # Small ones: etcd looks at its size ten times a second, and what was written meanwhile stays when the junk is gone.
                    acknowledged.append(await queue.submit("work", "x" * 20_000))

            with pytest.raises(StoreFull, match="alarm disarm"):
                await submit_until_full()
            assert acknowledged
            assert "NOSPACE" in (await queue.store.about())["alarms"]
            with pytest.raises(StoreFull):
                await queue.submit("work")
            assert (await queue.get(acknowledged[-1].id)).status == "pending"
            cluster.control("del", "--prefix", "junk/")
            cluster.control("compact", "--physical", revision_of(cluster))
            cluster.control("defrag")
            cluster.control("alarm", "disarm")
            await queue.cancel(acknowledged[-1].id)
            assert (await queue.counts())["pending"] == len(acknowledged) - 1


async def test_a_change_that_fills_the_quota_was_made_or_not_and_whoever_asked_for_it_is_told_which():
    """Changes that are under way together may each find room, and be made, and then be told that there is none."""
    with EtcdCluster(1, "--quota-backend-bytes", "16000000") as cluster:
        queues = [await connect(cluster.url()) for _ in range(8)]
        acknowledged = []

        async def submit_until_full(queue):
            while True:
                acknowledged.append((await queue.submit("work", "x" * 100_000)).id)

        ends = await asyncio.gather(*map(submit_until_full, queues), return_exceptions=True)
        assert [type(end) for end in ends] == [StoreFull] * len(queues)
        stored = [task.id async for task in queues[0].scan()]
        assert sorted(stored) == sorted(acknowledged)
        for queue in queues:
            await queue.close()
