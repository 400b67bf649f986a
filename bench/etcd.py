"""How fast Tenure is on etcd, beside what the bare client can do with the same writes.

    python bench/etcd.py            some minutes; writes bench/results/etcd.md and .json
    python bench/etcd.py --short    a quick look; writes nothing

It starts one member of its own, with its default, durable settings. Every run checks that each task was stored once
and ran exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

import report
from report import Figure
from tenure import Worker, connect
from tenure.stores.etcd.address import read_address
from tenure.stores.etcd.client import TXN, Client
from tenure.stores.etcd.requests import Txn, created_at, delete, nested, put
from tenure.testing.etcd import EtcdCluster
from workload import CONCURRENCY, TYPE, Reminder, reminder

HERE = Path(__file__).parent
CALLERS, BULK, GROUP = 50, 1000, 40
RECORD = b"x" * 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one repeat with few tasks; writes no results")
    choices = parser.parse_args()
    tasks, repeats = (2_000, 1) if choices.short else (10_000, 3)
    with EtcdCluster() as cluster:
        about = {**report.machine(Path(tempfile.gettempdir())), "etcd": asyncio.run(_version(cluster.url()))}
        figures = asyncio.run(Bench(cluster, tasks, repeats).run())
    settings = {
        "durability": "the server's defaults: an fsync for every commit; one member",
        "tasks": f"{tasks:,} (one by one {tasks // 10:,}), payload of {len(json.dumps(reminder(0)))} bytes, "
        "checked by pydantic, history on",
        "worker": f"concurrency {CONCURRENCY}; server and worker on the same machine",
        "repeats": str(repeats),
    }
    print(report.page("Tenure on etcd", "today", settings, about, figures))
    if not choices.short:
        report.write(HERE / "results", "etcd", "Tenure on etcd", settings, about, figures)


async def _version(url: str) -> str:
    async with connect(url) as queue:
        return (await queue.store.about())["store"].removeprefix("etcd ")


class Bench:
    """The measurements. Each begins with a prefix of its own."""

    def __init__(self, cluster: EtcdCluster, tasks: int, repeats: int) -> None:
        self.cluster, self.tasks, self.repeats = cluster, tasks, repeats
        self.prefixes = (f"bench/{number}" for number in itertools.count())

    def url(self) -> str:
        return self.cluster.url(next(self.prefixes))

    async def run(self) -> list[Figure]:
        few = self.tasks // 10
        one = Figure("submit one by one", "tasks/s", floor="bare client, a transaction each")
        callers = Figure(
            f"submit by {CALLERS} concurrent callers", "tasks/s", floor=f"bare client, {CALLERS} in flight"
        )
        bulk = Figure(f"submit in bulk of {BULK}", "tasks/s", floor=f"bare client, {BULK} tasks a transaction")
        drain = Figure(
            "drain, one process", "tasks/s", floor=f"bare client, the same writes, {GROUP} tasks a transaction"
        )
        transactions = Figure("transactions per 1000 tasks of a drain", "")
        for repeat in range(self.repeats):
            print(f"repeat {repeat + 1} of {self.repeats}", file=sys.stderr)
            one.add(await self.submit(few, 1), await self.bare(few, 1, 1))
            callers.add(await self.submit(self.tasks, CALLERS), await self.bare(self.tasks, 1, CALLERS))
            bulk.add(await self.submit_in_bulk(), await self.bare(self.tasks, BULK, 1))
            speed, sent = await self.drain()
            drain.add(speed, await self.bare_drain())
            transactions.add(sent * 1000 / self.tasks)
        return [one, callers, bulk, drain, transactions]

    async def submit(self, count: int, callers: int) -> float:
        async with connect(self.url()) as queue:
            await queue.now()
            numbers = iter(range(count))

            async def call() -> None:
                for number in numbers:
                    await queue.submit(TYPE, reminder(number))

            begin = time.perf_counter()
            await asyncio.gather(*(call() for _ in range(callers)))
            seconds = time.perf_counter() - begin
            assert (await queue.counts())["pending"] == count
        return count / seconds

    async def submit_in_bulk(self) -> float:
        async with connect(self.url()) as queue:
            begin = time.perf_counter()
            await self._fill(queue)
            return self.tasks / (time.perf_counter() - begin)

    async def _fill(self, queue) -> None:
        for start in range(0, self.tasks, BULK):
            await queue.submit_many([(TYPE, reminder(start + number)) for number in range(BULK)])

    async def drain(self) -> tuple[float, int]:
        ran: list[int] = []
        async with connect(self.url()) as queue:
            await self._fill(queue)
            worker = Worker(queue, concurrency=CONCURRENCY)

            @worker.task(TYPE)
            async def run(input: Reminder) -> None:  # noqa: A002 - the contract's name
                ran.append(input.number)

            before = queue.store._db.writer.transactions  # noqa: SLF001 - what is measured
            begin = time.perf_counter()
            await worker.run(until_idle=True)
            seconds = time.perf_counter() - begin
            assert sorted(ran) == list(range(self.tasks)), "not every task ran exactly once"
            assert (await queue.counts())["completed"] == self.tasks
            return self.tasks / seconds, queue.store._db.writer.transactions - before  # noqa: SLF001

    async def bare(self, count: int, size: int, in_flight: int) -> float:
        """Insert: a record and two entries for each task, if it is absent."""
        prefix = next(self.prefixes).encode()

        def request(start: int) -> object:
            ops = [
                put(b"%b/%d/%d" % (prefix, start + number, key), b"" if key else RECORD)
                for number in range(size)
                for key in range(3)
            ]
            return Txn(compare=[created_at(b"%b/%d/0" % (prefix, start), 0)], success=nested(ops, 1))

        return await self._send([request(start) for start in range(0, count, size)], in_flight, count)

    async def bare_drain(self) -> float:
        """The writes of a claim and of an ending for each task, and nothing else."""
        prefix = next(self.prefixes).encode()
        claims, ends = [], []
        for start in range(0, self.tasks, GROUP):
            names = [b"%b/%d" % (prefix, start + number) for number in range(GROUP)]
            claims.append(Txn(success=nested([op for name in names for op in _claim(name)], 0)))
            ends.append(Txn(success=nested([op for name in names for op in _end(name)], 0)))
        begin = time.perf_counter()
        await self._send(claims, 4, self.tasks)
        await self._send(ends, 4, self.tasks)
        return self.tasks / (time.perf_counter() - begin)

    async def _send(self, requests: list[object], in_flight: int, count: int) -> float:
        client = Client(read_address(self.cluster.url()))
        await client.ask(TXN, Txn())
        waiting = iter(requests)

        async def send() -> None:
            for request in waiting:
                await client.tell(TXN, request)

        begin = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(in_flight)))
        seconds = time.perf_counter() - begin
        await client.close()
        return count / seconds


def _claim(name: bytes) -> list[object]:
    return [delete(name + b"/due"), put(name + b"/claim", RECORD[:120])]


def _end(name: bytes) -> list[object]:
    return [
        put(name, RECORD + RECORD[:150]), delete(name + b"/claim"), delete(name + b"/open"),
        put(name + b"/done", b""), put(name + b"/ended", b""),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
