"""Producers and operators: they call the real Queue, and note what they asked and what they heard."""

import asyncio

from simulated.network import RemoteStore
from simulated.plan import POLICY
from tenure import Queue
from tenure.errors import IdempotencyConflict, StoreUnavailable, TenureError
from tenure.retry import effective_max
from tenure.testing.journal import Operated, Submitted

CONFLICT = {"idempotency_key": "same for all", "idempotency_scope": "ours"}


async def produce(process, network, journal, jobs):
    """Submit the jobs one after the other. `jobs` shrinks, so that a successor goes on where this one died."""
    queue = Queue(RemoteStore(network, process))
    dice = process.world.dice
    while jobs:
        job = jobs[0]
        if not job.repeats:
            jobs.pop(0)
            await asyncio.sleep(dice.expovariate(2))
            continue
        job.repeats -= 1
        if "batch" in job.input:
            await _submit_batch(queue, process, journal, job)
            continue
        # Whoever gives a key may ask again until it is answered.
        for _ in range(4 if job.key else 1):
            if await _submit(queue, process, journal, job):
                break


async def _submit(queue, process, journal, job):
    entry = _asked(journal, job, job.name)
    process.world.tell(process.name, f"submits {job.name!r} {job.options or ''}")
    try:
        task = await queue.submit(job.type, job.input, **job.options)
    except IdempotencyConflict:
        entry.refused, entry.answered = True, journal.next()
    except StoreUnavailable as error:
        process.world.tell(process.name, f"does not know whether {job.name!r} was submitted: {error}")
        return False
    else:
        _answered(journal, entry, task)
        process.world.tell(process.name, f"was answered that {job.name!r} is {task.id}, created={task.created}")
    return True


async def _submit_batch(queue, process, journal, job):
    """All or nothing: with a conflict inside, nothing."""
    members = [(f"{job.name}/{number}", {}) for number in range(job.input["batch"])]
    if job.input.get("conflict"):
        members.append((f"{job.name}/conflict", CONFLICT))
    entries = [_asked(journal, job, name) for name, _ in members]
    try:
        tasks = await queue.submit_many([("plain", {**job.input, "name": name}, options) for name, options in members])
    except IdempotencyConflict:
        for entry in entries:
            entry.refused, entry.answered = True, journal.next()
    except StoreUnavailable:
        return
    else:
        for entry, task in zip(entries, tasks, strict=True):
            _answered(journal, entry, task)


def _asked(journal, job, name):
    own = job.options.get("retry", POLICY)
    most = effective_max(job.options.get("max_attempts", 0), own.max_attempts)
    key = None if "batch" in job.input else job.key
    if name.endswith("/conflict"):
        key = "key /ours same for all"
    entry = Submitted(journal.next(), name, key, ordering_key=job.options.get("ordering_key"), most=most)
    journal.submits.append(entry)
    return entry


def _answered(journal, entry, task):
    entry.answered, entry.task_id, entry.created = journal.next(), task.id, task.created
    entry.key_until = task.remember_until
    if task.created:
        entry.due, entry.deadline = task.available_at, task.expires_at


async def operate(process, network, journal, operations):
    """Do what operators do, to whatever is there."""
    queue = Queue(RemoteStore(network, process))
    world = process.world
    loop = asyncio.get_running_loop()
    for moment, what in operations:
        await asyncio.sleep(max(moment + process.offset - loop.time(), 0))
        try:
            if what == "pause":
                await _pause(queue, world)
                continue
            wanted = {"retry": ("failed", "cancelled"), "archive": ("completed",)}.get(what, ("pending", "running"))
            found = (await queue.list(world.dice.choice(wanted), limit=20)).tasks
        except StoreUnavailable:
            continue
        if found:
            await _operate(queue, world, journal, what, world.dice.choice(found).id)


async def _operate(queue, world, journal, what, task_id):
    entry = Operated(journal.next(), what, task_id)
    journal.operations.append(entry)
    call = {"cancel": queue.cancel, "retry": queue.retry, "expire": queue.mark_expired, "archive": queue.archive}[what]
    words = {"keep_attempts": True} if what == "retry" and world.dice.random() < 0.3 else {}
    try:
        task = await call(task_id, **words)
    except StoreUnavailable:
        world.tell("operator", f"{what} {task_id}: no answer")
    except TenureError as refusal:
        entry.refused, entry.answered = True, journal.next()
        world.tell("operator", f"{what} {task_id}: refused, {refusal}")
    else:
        entry.answered, entry.status = journal.next(), task.status
        world.tell("operator", f"{what} {task_id}: now {task.status}")


async def _pause(queue, world):
    await queue.pause(reason="a look", resume_after=2.0)
    world.tell("operator", "pauses the queue for 2 s")
