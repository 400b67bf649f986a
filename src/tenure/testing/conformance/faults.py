"""Section 10 of the contract with a store that fails: whichever call is lost, and when, no promise is broken."""

import asyncio

import pytest

from tenure.errors import PermanentError, RescheduleError, StoreUnavailable
from tenure.queue import Queue
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.checker import check
from tenure.testing.conformance.steps import LATE, LEASE, claim, everything
from tenure.testing.faults import Fault, FaultyStore
from tenure.testing.inline import run_until_done
from tenure.worker import Context, Worker, backoff


@pytest.fixture(autouse=True)
def quick_back_off(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST", 0.001)
    monkeypatch.setattr(backoff, "LONGEST", 0.002)


async def insist(call):
    """Make a call again until the store answers: what a careful producer does."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0)


class Run:
    """Producers and workers, an account of what was acknowledged and run, and a store that fails for some of them."""

    def __init__(self, store, clock, plan, seed=0, lease=LEASE):
        self.clock, self.sound, self.lease = clock, store, lease
        self.faulty = FaultyStore(store, seed, plan)
        self.acknowledged = []
        self.executions = []
        self.completions = []
        self.may_end = asyncio.Event()

    async def produce(self, store, count=2):
        """Submits with keys are made again until they are answered; one without a key is made once.

        Unwanted tasks are due long after the clock of these tests has stopped: no worker gets one before its producer
        takes it back.
        """
        queue = Queue(store)
        for number in range(count):
            for type_ in ("steady", "flaky", "hopeless", "later", "extending"):
                options = {"idempotency_key": f"{number}", "max_attempts": 6}
                if type_ in ("steady", "flaky", "hopeless"):
                    options["ordering_key"] = f"k{number % 2}"
                task = await insist(lambda t=type_, n=number, o=options: queue.submit(t, n, **o))
                self.acknowledged.append(task.id)
        batch = [("steady", number, {"idempotency_key": f"batch-{number}"}) for number in range(count)]
        self.acknowledged += [task.id for task in await insist(lambda: queue.submit_many(batch))]
        try:
            self.acknowledged.append((await queue.submit("steady", -1)).id)
        except StoreUnavailable:
            assert self.faulty.injected, "nobody planned this"
        for number in range(count):
            unwanted = await insist(lambda n=number: queue.submit("steady", 0, task_id=f"unwanted-{n}", delay=3600))
            await insist(lambda task=unwanted: queue.cancel(task.id))
            self.acknowledged.append(unwanted.id)

    def worker(self, name, store):
        worker = Worker(Queue(store), worker_id=name, concurrency=3, lease=self.lease, poll=0.01, sweep_interval=0.01)
        worker.on_success(lambda task: self.completions.append(task.id))

        @worker.middleware
        async def count(context, call_next):
            self.executions.append((context.task.id, context.fence))
            return await call_next()

        @worker.task("steady")
        async def steady(input: int) -> int:  # noqa: A002 - the contract's name, here and below
            return input

        @worker.task("flaky")
        async def flaky(input: int, context: Context) -> int:  # noqa: A002
            if context.attempt == 1:
                msg = "not the first time"
                raise RuntimeError(msg)
            return input

        @worker.task("hopeless")
        async def hopeless(input: int) -> None:  # noqa: A002
            raise PermanentError(input)

        @worker.task("later")
        async def later(input: int, context: Context) -> int:  # noqa: A002
            if context.task.reschedules == 0:
                raise RescheduleError(delay_seconds=5)
            return input

        @worker.task("extending")
        async def extending(input: int, context: Context) -> int:  # noqa: A002
            await context.extend_lease(60)
            return input

        @worker.task("slow")
        async def slow(input: int) -> int:  # noqa: A002
            await self.may_end.wait()
            return input

        return worker

    async def work(self):
        await asyncio.gather(*(self.worker(f"w{number}", self.faulty).run(until_idle=True) for number in (1, 2)))

    async def finish(self):
        """The trouble ends, what was left behind lapses, and everything that can run is run."""
        self.faulty.heal()
        self.may_end.set()
        self.clock.advance(100)
        await run_until_done(self.worker("last", self.faulty), self.clock)

    async def account(self):
        tasks = await everything(self.sound, page=1000)
        assert check(tasks, self.acknowledged, executions=self.executions, all_ended=True) == []
        assert len(self.completions) == len(set(self.completions)), "a completion was reported twice"
        for task in tasks:
            expected = {"hopeless": TaskStatus.Failed}.get(task.type, TaskStatus.Completed)
            assert task.status is (TaskStatus.Cancelled if task.id.startswith("unwanted") else expected), task
            assert (task.id in self.completions) == (task.status is TaskStatus.Completed)
        return tasks


both_kinds = pytest.mark.parametrize("kind", ["before", "after"])


@both_kinds
@pytest.mark.parametrize("nth", [1, range(2, 7)], ids=str)
@pytest.mark.parametrize("method", ["now", "insert", "get", "swap"])
async def test_no_promise_breaks_when_calls_of_producers_and_operators_are_lost(store, clock, method, kind, nth):
    run = Run(store, clock, [Fault(method, kind, nth)])
    await run.produce(run.faulty)
    assert run.faulty.injected
    await run.finish()
    tasks = await run.account()
    assert len(tasks) - len(run.acknowledged) <= 1, "only the submit without a key can be there unacknowledged"


ONLY_AFTER_TROUBLE = {
    "find": [Fault("claim", "after", nth=range(1, 5))],
    "get": [Fault("swap", "after", nth=range(1, 5))],
}
"""Calls that a worker only makes when another one was lost."""


@both_kinds
@pytest.mark.parametrize("nth", [1, range(2, 7)], ids=str)
@pytest.mark.parametrize("method", ["now", "claim", "swap", "renew", "find", "get"])
async def test_no_promise_breaks_when_calls_of_workers_are_lost(store, clock, method, kind, nth):
    run = Run(store, clock, [Fault(method, kind, nth), *ONLY_AFTER_TROUBLE.get(method, [])])
    await run.produce(store)
    await run.work()
    assert any(fault.method == method for fault in run.faulty.injected)
    await run.finish()
    await run.account()


@both_kinds
@pytest.mark.parametrize("method", ["put_note", "wait", "renew"])
async def test_no_promise_breaks_when_calls_beside_a_running_task_are_lost(store, clock, method, kind):
    run = Run(store, clock, [Fault(method, kind, nth=range(1, 3))], lease=0.3)
    task = await Queue(store).submit("slow", 1)
    run.acknowledged.append(task.id)

    def met():
        return any(fault.method == method for fault in run.faulty.injected)

    def start():
        return asyncio.ensure_future(run.worker("w1", run.faulty).run(until_idle=True))

    working = start()
    async with asyncio.timeout(60):
        while run.faulty.calls.get("wait", 0) < 3 or run.faulty.calls.get("renew", 0) < 3:
            await run.sound.wait(run.sound.mark(), 0.01)
            if working.done() and met():
                break
            if working.done():
                # A slow machine has given up a lease as short as this before any call was lost: the same once more.
                working.result()
                working = start()
    run.may_end.set()
    await working
    assert met()
    await run.finish()
    await run.account()


@both_kinds
@pytest.mark.parametrize("nth", [1, range(2, 5)], ids=str)
@pytest.mark.parametrize("method", ["now", "overdue", "swap", "prune"])
async def test_no_promise_breaks_when_calls_of_a_sweep_are_lost(store, clock, method, kind, nth):
    run = Run(store, clock, [Fault(method, kind, nth)])
    queue = Queue(store)
    lapsing = await queue.submit_many([("steady", number) for number in range(5)])
    await claim(store, 5, types=["steady"], by="victim")
    expiring = await queue.submit_many([("steady", number) for number in range(5)], ttl=1, delay=2)
    run.acknowledged = [task.id for task in (*lapsing, *expiring)]
    sweeper = Sweeper(run.faulty)
    for _ in range(3):
        clock.advance(LEASE / 2)
        await insist(sweeper.sweep)
        await insist(sweeper.prune)
    assert run.faulty.injected
    swept = await store.get(run.acknowledged)
    assert [(task.status, task.version) for task in swept] == [("pending", 3)] * 5 + [("expired", 2)] * 5
    await run.finish()
    tasks = await everything(store)
    assert check(tasks, run.acknowledged, executions=run.executions, all_ended=True) == []


@pytest.mark.parametrize("seed", range(8))
async def test_no_promise_breaks_when_anything_may_be_lost_or_late_at_any_time(store, clock, seed):
    plan = [Fault("*", "before", probability=0.15), Fault("*", "after", probability=0.15), *LATE]
    run = Run(store, clock, plan, seed)

    async def let_time_pass():
        for _ in range(10):
            await insist(Sweeper(run.faulty).sweep)
            clock.advance(LEASE / 4)

    await asyncio.gather(run.produce(run.faulty), run.work(), let_time_pass())
    await run.work()
    assert len(run.faulty.injected) > 50
    await run.finish()
    await run.account()


async def test_workers_that_outlive_their_leases_never_complete_what_others_took(store, clock):
    run = Run(store, clock, [])
    tasks = await Queue(store).submit_many([("slow", number) for number in range(3)], max_attempts=5)
    run.acknowledged = [task.id for task in tasks]
    lost = FaultyStore(store, 0, [Fault("renew", "before")])
    zombie = asyncio.ensure_future(run.worker("zombie", lost).run(until_idle=True))
    async with asyncio.timeout(60):
        while len(run.executions) < 3:
            await store.wait(store.mark(), 0.01)
    clock.advance(LEASE)
    heir = asyncio.ensure_future(run.worker("heir", store).run(until_idle=True))
    async with asyncio.timeout(60):
        while len(run.executions) < 6:
            await store.wait(store.mark(), 0.01)
    run.may_end.set()
    await asyncio.gather(zombie, heir)
    ended = await run.account()
    assert {event.worker for task in ended for event in task.history if event.what == "completed"} == {"heir"}
