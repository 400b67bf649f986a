"""Planted bugs: each breaks one rule of the lifecycle, of the store or of the worker, and the checker must see it."""

import contextlib
from datetime import timedelta
from typing import NamedTuple
from unittest.mock import patch

import msgspec

from tenure import idempotency, lifecycle
from tenure.idempotency import Verdict
from tenure.lifecycle import LAPSED, Pending, Running, _event, _next
from tenure.stores import memory
from tenure.stores.base import Hold
from tenure.stores.memory import MemoryStore
from tenure.task import OPEN, Task, TaskStatus
from tenure.times import FOREVER
from tenure.worker.attempt import Attempt
from tenure.worker.run import Run
from tenure.worker.unanswered import Unanswered

replace = msgspec.structs.replace
SECOND = timedelta(seconds=1)


class Mutant(NamedTuple):
    what: str
    invariant: str
    plant: object


MUTANTS = []


def breaks(invariant, what):
    """Register a function that is given an ExitStack to put its patches on."""

    def register(function):
        MUTANTS.append(Mutant(what, invariant, function))
        return function

    return register


def planted(mutant):
    stack = contextlib.ExitStack()
    mutant.plant(lambda target, name, value: stack.enter_context(patch.object(target, name, value)))
    return stack


# -- the store


@breaks("acknowledged is never lost", "the last of a batch is answered and not stored")
def _(put):
    insert = MemoryStore.insert

    async def forgetful(store, submissions, **how):
        answers = await insert(store, submissions, **how)
        if len(answers) > 1 and isinstance(answers[-1], Task):
            store._tasks.pop(answers[-1].id, None)
        return answers

    put(MemoryStore, "insert", forgetful)


@breaks("acknowledged is never lost", "an archived task is deleted")
def _(put):
    async def swap(store, changes):
        answers = await swap_as_it_is(store, changes)
        for change in changes:
            if change.after.status is TaskStatus.Archived:
                store._tasks.pop(change.after.id, None)
        return answers

    swap_as_it_is = MemoryStore.swap
    put(MemoryStore, "swap", swap)


@breaks("nothing runs that was not submitted", "a refused batch leaves what stood before the conflict")
def _(put):
    insert = MemoryStore.insert

    async def partly(store, submissions, *, all_or_nothing=False):
        answers = await insert(store, submissions)
        if all_or_nothing and (refusals := [answer for answer in answers if isinstance(answer, Exception)]):
            raise refusals[0]
        return answers

    put(MemoryStore, "insert", partly)


@breaks("one owner at a time by store time", "a renewal is answered and not kept")
def _(put):
    def renew(store, renewal):
        task = store._tasks.get(renewal.task_id)
        held = task is not None and task.status is Running and task.fence == renewal.fence
        return Hold.Held if held else Hold.Lost

    put(MemoryStore, "_renew", renew)


@breaks("one owner at a time by store time", "a sweeper overlooks a renewal that came between")
def _(put):
    put(memory, "_fits", lambda change, stored: stored.version == change.before.version)


@breaks("no write of an old fence after a newer one", "the owner of a claim is not asked for its fence")
def _(put):
    def require(task, fence):
        if task.status is not Running:
            raise lifecycle.LeaseLost(task.id, fence, task.status, task.fence)

    put(lifecycle, "_require_owner", require)


@breaks("one ending per task", "a swap does not compare versions")
def _(put):
    put(memory, "_fits", lambda change, stored: True)


@breaks("order per key", "a head that waits for its time lets the next go")
def _(put):
    heads = MemoryStore._heads

    def impatient(store):
        now = store._clock()
        waiting = {
            id_: task for id_, task in store._tasks.items() if task.is_available_at(now) or task.status is Running
        }
        with patch.object(store, "_tasks", waiting):
            found = heads(store)
        return {task.ordering_key: found.get(task.ordering_key, task) for task in store._tasks.values()}

    put(MemoryStore, "_heads", impatient)


@breaks("order per key", "of one key, the latest goes first")
def _(put):
    def heads(store):
        tasks = sorted(store._tasks.values(), key=lambda task: store._order[task.id])
        return {task.ordering_key: task for task in tasks if task.status in OPEN}

    put(MemoryStore, "_heads", heads)


@breaks("one task per idempotency key", "the record of a key is not looked at")
def _(put):
    put(idempotency, "judge", lambda *_, **__: Verdict.TakeOver)


@breaks("one task per idempotency key", "the record of a key lives for a second")
def _(put):
    put(idempotency.Reservation, "is_stale_at", lambda record, now: now >= record.created_at + SECOND)


@breaks("a cancelled pending task never starts", "a cancel is answered and not written")
def _(put):
    swap_as_it_is = MemoryStore.swap

    async def swap(store, changes):
        if all(change.after.history[-1].what == "cancelled" for change in changes):
            return [True for _ in changes]
        return await swap_as_it_is(store, changes)

    put(MemoryStore, "swap", swap)


# -- the lifecycle


@breaks("one owner at a time by store time", "a lease lapses a second early")
def _(put):
    put(
        lifecycle,
        "_has_lapsed",
        lambda task, now: task.lease_expires_at is not None and now >= task.lease_expires_at - SECOND,
    )


@breaks("fences only grow", "a claim keeps the fence of the one before")
def _(put):
    claim = lifecycle.claim
    put(lifecycle, "claim", lambda task, **words: claim(task, **words, fence=max(task.fence, 1)))


@breaks("one ending per task", "whoever had the last claim may end what has ended")
def _(put):
    def require(task, fence):
        if task.fence != fence:
            raise lifecycle.LeaseLost(task.id, fence, task.status, task.fence)

    put(lifecycle, "_require_owner", require)


@breaks("one ending per task", "a cancel ends what has ended")
def _(put):
    cancel = lifecycle.cancel

    def bold(task, now, reason=None, by=None):
        return lifecycle._cancelled(task, now, "cancelled") if task.status.ended else cancel(task, now, reason, by)

    put(lifecycle, "cancel", bold)


@breaks("executions started at most max", "the limit is one too high")
def _(put):
    limit = lifecycle._limit
    put(lifecycle, "_limit", lambda task, policy_max: limit(task, policy_max) + 1)


@breaks("executions started at most max", "a lapse spends no attempt")
def _(put):
    def lapse(task, now):
        event = _event(task, now, Pending, LAPSED)
        return _next(task, event, worker_id=None, lease_expires_at=None, available_at=now)

    put(lifecycle, "lapse", lapse)


@breaks("never early", "a failed attempt is repeated at once")
def _(put):
    fail = lifecycle.fail

    def hasty(task, fence, failure, policy, now, roll):
        failed = fail(task, fence, failure, policy, now, roll)
        return replace(failed, available_at=now) if failed.status is Pending else failed

    put(lifecycle, "fail", hasty)


@breaks("never early", "a reschedule waits half as long")
def _(put):
    reschedule = lifecycle.reschedule
    put(lifecycle, "reschedule", lambda task, fence, now, delay, more=0: reschedule(task, fence, now, delay / 2, more))


@breaks("never early", "everything is due a second before its time")
def _(put):
    claim = lifecycle.claim
    put(Task, "is_available_at", lambda task, now: now + SECOND >= task.available_at)
    put(
        lifecycle,
        "claim",
        lambda task, **words: claim(replace(task, available_at=min(task.available_at, words["now"])), **words),
    )


@breaks("never after the deadline", "nobody looks at deadlines")
def _(put):
    put(Task, "is_expired_at", lambda task, now: False)
    put(lifecycle, "_is_late", lambda task, now: False)


@breaks("never after the deadline", "a task expires a second before its deadline")
def _(put):
    put(lifecycle, "_is_late", lambda task, now: task.expires_at is not None and now >= task.expires_at - SECOND)


@breaks("a cancelled pending task never starts", "a cancelled task stays in the line")
def _(put):
    cancelled = lifecycle._cancelled

    def undecided(task, now, what):
        after = cancelled(task, now, what)
        return replace(after, status=Pending) if what == "cancelled" else after

    put(lifecycle, "_cancelled", undecided)


@breaks("every runnable task starts once faults stop", "a lapsed lease is never noticed")
def _(put):
    overdue = lifecycle.overdue
    put(lifecycle, "overdue", lambda task, now: None if task.status is Running else overdue(task, now))


@breaks("every runnable task starts once faults stop", "the time of a retry is never")
def _(put):
    fail = lifecycle.fail

    def late(task, fence, failure, policy, now, roll):
        failed = fail(task, fence, failure, policy, now, roll)
        return replace(failed, available_at=FOREVER) if failed.status is Pending else failed

    put(lifecycle, "fail", late)


@breaks("history alone rebuilds the state", "a task that is given back says nothing of it")
def _(put):
    release = lifecycle.release

    def silent(task, fence, now, why):
        released = release(task, fence, now, why)
        return replace(released, history=task.history) if released.status is Pending else released

    put(lifecycle, "release", silent)


@breaks("history alone rebuilds the state", "a completion forgets when it happened")
def _(put):
    complete = lifecycle.complete
    put(lifecycle, "complete", lambda task, *words: _timeless(task, complete(task, *words)))


def _timeless(task, completed):
    return task if completed is task else replace(completed, completed_at=None)


# -- the worker


@breaks("nothing runs that was not submitted", "a handler is run twice under one claim")
def _(put):
    run = Attempt.run

    async def twice(attempt, *words):
        await run(attempt, *words)
        return await run(attempt, *words)

    put(Attempt, "run", twice)


@breaks("one owner at a time by store time", "a worker begins although its lease is over")
def _(put):
    take = Run._take
    put(Run, "_take", lambda run, claimed, sent: take(run, claimed, 1e12))


@breaks("executions started at most max", "a handler that was given up counts as never begun")
def _(put):
    async def find(unanswered, known, types, since):
        return [task for task in await unanswered._held_in_our_name() if task.id not in known]

    put(Unanswered, "find", find)


@breaks("every runnable task starts once faults stop", "an idle worker waits for a wake-up and never polls")
def _(put):
    async def nap(run, mark, next_due):
        await run._sleep(run.store.wait(mark, 60.0))

    put(Run, "_nap", nap)
