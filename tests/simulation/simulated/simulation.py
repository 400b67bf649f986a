"""One seed, from its beginning to the judgement."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from simulated import clients, handlers
from simulated.network import PATIENCE, Network, RemoteStore
from simulated.plan import POLICY, Plan
from simulated.world import Process, World
from tenure import Queue, Worker
from tenure.stores.base import PAUSE
from tenure.task import OPEN, encode
from tenure.testing.invariants import Circumstances, broken_invariants
from tenure.testing.journal import Journal
from tenure.times import from_text

BACKOFF = 5.0
DRAIN = 200.0


@dataclass
class Outcome:
    seed: int
    broken: dict[str, list[str]]
    digest: str
    figures: Counter
    faults: Counter
    story: list = field(default_factory=list)


class Simulation:
    def __init__(self, seed, told=None, without=()):
        self.seed = seed
        self.world = World(seed, told)
        self.journal = Journal()
        self.network = Network(self.world, self.journal)
        self.plan = Plan(self.world.dice)
        self.plan.leave_out(without)
        self.faults = Counter()
        self.workers, self.producers = [], []
        self.generation = 0
        self.healed = self.stopping = False

    def run(self):
        with self.world.real():
            return self._run()

    def _run(self):
        plan, world = self.plan, self.world
        if not plan.calm:
            for name, share in plan.network.items():
                setattr(self.network, name, share)
        self.workers = [self._worker(place) for place in range(plan.workers)]
        self.producers = [self._producer(line) for line in range(len(plan.lines))]
        operator = Process(world, "operator")
        operations = operator.start(clients.operate(operator, self.network, self.journal, plan.operations))
        for moment, kind, pick, length in plan.troubles:
            world.later(moment, self._trouble, kind, pick, length)
        world.later(plan.heals_at, self._heal)
        self._look_after()
        world.run(lambda: self._is_over(operations), limit=plan.heals_at + DRAIN)
        self.stopping = True
        stopped = self._stop()
        return self._judge(stopped=stopped)

    def _is_over(self, operations):
        done = self.healed and operations.done() and not any(self.plan.lines)
        # What its client has given up may still arrive, and open a task.
        done = done and not self.network.on_the_way["insert"] and not self.network.on_the_way["swap"]
        return done and not any(task.status in OPEN for task in self.network.store._tasks.values())

    # -- processes

    def _worker(self, place):
        self.generation += 1
        process = Process(self.world, f"w{place}.{self.generation}")
        worker = process.worker = Worker(
            Queue(RemoteStore(self.network, process)),
            worker_id=f"w{place}" if self.plan.names_stay else process.name,
            concurrency=self.plan.concurrency,
            lease=self.plan.lease,
            poll=self.plan.poll,
            retry=POLICY,
            grace=2.0,
            sweep_interval=3.0,
        )
        handlers.register(worker, process, self.journal)
        process.running_worker = process.start(_run(worker))
        self.world.tell(process.name, "begins")
        return process

    def _producer(self, line):
        self.generation += 1
        process = Process(self.world, f"p{line}.{self.generation}")
        process.done = process.start(clients.produce(process, self.network, self.journal, self.plan.lines[line]))
        return process

    def _look_after(self):
        """A supervisor: whoever has died or ended is followed by another one."""
        if self.stopping:
            return
        for place, process in enumerate(self.workers):
            if not process.alive or process.running_worker.done():
                process.crash()
                self.workers[place] = self._worker(place)
        for line, process in enumerate(self.producers):
            if not process.alive:
                self.producers[line] = self._producer(line)
        self.world.later(0.7, self._look_after)

    # -- troubles

    def _trouble(self, kind, pick, length):
        self.faults[kind] += 1
        victim = self.workers[int(pick * len(self.workers))]
        match kind:
            case "crash":
                victim.crash()
            case "pause":
                victim.pause()
                self.world.later(length, victim.resume)
            case "partition":
                self._cut(victim.name, length)
            case "outage":
                self._cut("store", length)
            case "restart":
                if victim.running:
                    self._signal(victim, now=False)
            case "stop now":
                if victim.running:
                    self._signal(victim, now=True)
            case "jump":
                self.world.jump(length * 3)
            case "jump back":
                self.world.jump(-length)
            case "lose producer":
                self.producers[int(pick * 2)].crash()

    def _signal(self, process, *, now):
        self.world.tell(process.name, "is asked to stop now" if now else "is asked to stop")
        process.loops[0].call_soon_threadsafe(lambda: process.worker.stop(now=now))

    def _cut(self, name, length):
        self.network.cut_off.add(name)
        self.world.tell("network", f"{name} is CUT OFF")
        self.world.later(length, self._mend, name)

    def _mend(self, name):
        self.network.cut_off.discard(name)
        self.world.tell("network", f"{name} is reached again")

    def _heal(self):
        self.healed, self.healed_at, self.healed_after = True, self.world.clock(), self.world.now
        self.network.heal()
        self.world.tell("network", "EVERYTHING HEALS")
        for process in (*self.workers, *self.producers):
            if process.paused:
                process.resume()

    # -- the end

    def _stop(self):
        self.world.tell("everyone", "is asked to stop")
        for process in self.workers:
            if process.alive:
                process.loops[0].call_soon_threadsafe(process.worker.stop)
        limit = self.world.now + 30
        return self.world.run(lambda: all(not p.alive or p.running_worker.done() for p in self.workers), limit=limit)

    def _ends_of_pauses(self):
        """A pause ends by the store's clock. If that was set back, it lasts longer than whoever paused had in mind."""
        notes = self.network.store._list_notes(PAUSE)
        return [from_text(note.value["until"]) for note in notes if note.value.get("until")]

    def _judge(self, *, stopped):
        plan, world, journal = self.plan, self.world, self.journal
        tasks = sorted(self.network.store._tasks.values(), key=lambda task: self.network.store._order[task.id])
        slack = timedelta(seconds=3 * PATIENCE)
        # A worker whose loop is blocked claims nothing; several handlers may block it one after the other.
        blocked = sum(seconds for began, seconds in world.blocks if began + seconds > self.healed_after)
        patience = timedelta(seconds=plan.lease + plan.poll + BACKOFF + 2 * PATIENCE + 1 + blocked)
        circumstances = Circumstances(
            healed_at=max([self.healed_at, *self._ends_of_pauses()]),
            start_within=patience if plan.concurrency == 50 else None,
            all_ended=True,
            policy=POLICY,
            set_back=world.set_back,
            set_forward=world.set_forward,
            on_the_way=slack,
            keys_by_type=False,
        )
        broken = broken_invariants(tasks, journal, circumstances)
        if not stopped:
            broken["shutdown"] = ["a worker that was asked to stop did not stop within 30 s"]
        if world.surprises:
            broken["surprises"] = world.surprises
        # What a worker raised, it would have died of.
        for process in self.workers:
            task = process.running_worker
            if process.alive and task.done() and task.exception() is not None:
                broken["surprises"] = [f"{process.name} died of {task.exception()!r}"]
        digest = hashlib.sha256()
        for task in tasks:
            digest.update(encode(task))
        for entries in (
            journal.submits,
            journal.starts,
            journal.finishes,
            journal.holds,
            journal.writes,
            journal.operations,
        ):
            digest.update(repr(entries).encode())
        figures = Counter(event.what for task in tasks for event in task.history)
        figures += Counter(
            {"tasks": len(tasks), "executions": len(journal.starts), "operations": len(journal.operations)}
        )
        figures += Counter(
            {"calls of the store": sum(self.network.calls.values()), "virtual seconds": round(world.now)}
        )
        faults = self.faults + self.network.faults
        return Outcome(self.seed, broken, digest.hexdigest(), figures, faults, world.told or [])


async def _run(worker):
    await worker.run()


def simulate(seed, *, story=False, without=()):
    """Everything that a seed leads to, always the same; with `story`, also what happened when."""
    return Simulation(seed, [] if story else None, without).run()
