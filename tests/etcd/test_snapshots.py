"""Snapshots: what was acknowledged before one is in it."""

import asyncio
import shutil
import subprocess

from load import Load

import debian
from tenure import Worker, connect
from tenure.testing.checker import check
from tenure.testing.conformance.steps import everything
from tenure.testing.etcd import EtcdCluster


async def test_a_snapshot_in_the_middle_of_load_holds_everything_that_was_acknowledged_before_it(tmp_path):
    programs = debian.program("etcd").parent
    snapshot = tmp_path / "snapshot.db"
    with EtcdCluster(1, programs_in=programs) as cluster:
        async with Load(cluster.url()) as load:
            await load.goes_on(100)
            before = list(load.acknowledged)
            completed = set(load.completed)
            await asyncio.to_thread(cluster.control, "snapshot", "save", str(snapshot))
            await load.goes_on()
            await load.finish()
    with EtcdCluster(1, programs_in=programs) as restored:
        restored.members[0].stop()
        shutil.rmtree(restored.members[0].data, ignore_errors=True)
        peers = f"n0={restored.members[0].peer_url}"
        subprocess.run(
            [programs / "etcdctl", "snapshot", "restore", snapshot, "--name", "n0", "--data-dir",
             restored.members[0].data, "--initial-cluster", peers,
             "--initial-advertise-peer-urls", restored.members[0].peer_url],
            check=True, capture_output=True, env={"ETCDCTL_API": "3"},
        )  # fmt: skip
        restored.start()
        async with connect(restored.url()) as queue:
            tasks = {task.id: task for task in await everything(queue.store, page=1000)}
            assert tasks.keys() >= set(before)
            assert all(tasks[task_id].status == "completed" for task_id in completed)
            worker = Worker(queue, lease=3.0, poll=0.2)

            @worker.task("work")
            async def work(input: int) -> int:
                return input

            while any(task.status in ("pending", "running") for task in await everything(queue.store, page=1000)):
                await worker.run(until_idle=True)
                await asyncio.sleep(0.1)
            ended = await everything(queue.store, page=1000)
            assert check(ended, before, all_ended=True) == []
            assert (await queue.counts())["completed"] == len(ended)
