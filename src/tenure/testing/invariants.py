"""The invariants of a run, one function each. Each yields what breaks it, as sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise

from tenure.task import OPEN, Event, Task, TaskStatus
from tenure.testing.journal import Journal, Submitted
from tenure.testing.replay import GIVEN_BACK, claims, is_cut, lives, replay, said, stays
from tenure.testing.run import Circumstances, Run
from tenure.times import FOREVER

Pending, Running, Archived = TaskStatus.Pending, TaskStatus.Running, TaskStatus.Archived
SHUT_DOWN = "its worker was shut down"


def acknowledged_is_never_lost(run: Run) -> Iterator[str]:
    """Whatever a producer was answered is there, once, and is what it asked for."""
    for submit in run.answered:
        if submit.task_id not in run.known:
            yield f"{submit.task_id}: was acknowledged and is lost"
        elif submit.name and run.names.get(submit.task_id) != submit.name:
            yield f"{submit.task_id}: was acknowledged as {submit.name!r} and is {run.names.get(submit.task_id)!r}"
    for task_id, count in Counter(task.id for task in run.tasks).items():
        if count > 1:
            yield f"{task_id}: stands there {count} times"


def nothing_runs_that_was_not_submitted(run: Run) -> Iterator[str]:
    """Each execution has a task that somebody asked for, and a claim of its own."""
    asked = {submit.name for submit in run.journal.submits if not submit.refused}
    for task_id, name in run.names.items():
        if any(asked) and name not in asked:
            yield f"{task_id}: {name!r} stands there, and nobody was answered that it would"
    for task_id, starts in run.starts.items():
        task = run.known.get(task_id)
        if task is None:
            yield f"{task_id}: ran and was never submitted"
            continue
        fences = {event.fence for event in claims(task)}
        for fence, count in Counter(start.fence for start in starts).items():
            if count > 1:
                yield f"{task_id}: ran {count} times under the one claim with fence {fence}"
            if not is_cut(task) and fence not in fences:
                yield f"{task_id}: ran with fence {fence}, which no claim has given it"


def one_owner_at_a_time_by_store_time(run: Run) -> Iterator[str]:
    """Nobody takes a task from a worker that was answered that it holds it until later, and nobody begins later."""
    until: dict[tuple[str, int], datetime] = {}
    ends: list[tuple[int, str, int, datetime | None]] = [
        (h.number, h.task_id, h.fence, h.until) for h in run.journal.holds
    ]
    ends += [(start.number, start.task_id, start.fence, None) for start in run.journal.starts if start.at is not None]
    at = {start.number: start.at for start in run.journal.starts}
    for number, task_id, fence, end in sorted(ends, key=lambda entry: entry[0]):
        held = until.get((task_id, fence))
        if end is not None:
            until[task_id, fence] = end if held is None else max(held, end)
        elif held is not None and (begun := at[number]) is not None and begun >= held + run.given.set_forward:
            yield f"{task_id}: began at {begun} with fence {fence}, whose lease had ended at {held}"
    for task in run.tasks:
        owner: Event | None = None
        last = 0
        for event in task.history:
            if event.number != last + 1:
                # What was left out of a very long history may have ended the claim before it.
                owner = None
            last = event.number
            if event.what == "claimed" and owner is not None:
                yield f"{task.id}: {said(event)} was by {event.worker} while {owner.worker} held it"
            if owner is not None and event.what == "lapsed":
                held = until.get((task.id, owner.fence))
                if held is not None and event.at < held - run.given.set_back:
                    yield f"{task.id}: was taken at {event.at} from {owner.worker}, which held it until {held}"
            if event.status is not Running:
                owner = None
            elif event.what == "claimed":
                owner = event


def fences_only_grow(run: Run) -> Iterator[str]:
    """Each claim has a higher fence than the one before, and a fence belongs to one worker."""
    for task in run.tasks:
        for one, other in pairwise(claims(task)):
            if other.fence <= one.fence:
                yield f"{task.id}: {said(other)} has fence {other.fence} after fence {one.fence}"
    owners: dict[tuple[str, int], str] = {}
    for hold in run.journal.holds:
        owner = owners.setdefault((hold.task_id, hold.fence), hold.worker)
        if owner != hold.worker:
            yield f"{hold.task_id}: fence {hold.fence} was given to {owner} and to {hold.worker}"


def no_write_of_an_old_fence_after_a_newer_one(run: Run) -> Iterator[str]:
    """What stands in a history was written under the newest claim, by the worker that had it."""
    for task in run.tasks:
        newest = 0
        for before, event in pairwise((task.history[0], *task.history)):
            if event.what == "claimed" or event.number > before.number + 1:
                newest = event.fence
            elif event.fence != newest:
                yield f"{task.id}: {said(event)} was written by fence {event.fence} while the newest claim has fence {newest}"
    events = {task.id: {event.number: event for event in task.history} for task in run.tasks}
    for write in run.journal.writes:
        found = events.get(write.task_id, {}).get(write.event)
        if found is not None and found.what == write.what and found.worker != write.worker:
            yield f"{write.task_id}: {said(found)} of the claim of {found.worker} was written by {write.worker}"


def one_ending_per_task(run: Run) -> Iterator[str]:
    """A task ends once in each life; lives are given by operators; an ending that was acknowledged stands."""
    for task in run.tasks:
        for life in lives(task):
            endings = [event for event in life if event.status.ended and event.status is not Archived]
            if len(endings) > 1:
                yield f"{task.id}: ended {len(endings)} times: {', '.join(said(event) for event in endings)}"
        retried = sum(event.what == "retried" for event in task.history)
        if run.journal.submits and any(run.names) and retried > run.operated(task.id, "retry"):
            yield f"{task.id}: was given another life {retried} times, more often than anybody asked"
    for write in run.journal.writes:
        task_now = run.known.get(write.task_id)
        if task_now is not None and not is_cut(task_now):
            whats = {event.number: event.what for event in task_now.history}
            if whats.get(write.event) != write.what:
                yield f"{write.task_id}: {write.what!r} was acknowledged as event {write.event}, which is {whats.get(write.event)!r}"


def executions_started_at_most_max(run: Run) -> Iterator[str]:
    """No more executions than allowed in each life. What is given back on purpose does not count."""
    for task in run.tasks:
        if is_cut(task):
            continue
        # Without a journal every claim is taken for an execution.
        begun = {start.fence for start in run.starts.get(task.id, ())} if run.journal.starts else None
        for life in lives(task):
            carried = life[0].attempt if life and life[0].what == "retried" else 0
            spent = {
                event.fence for event in life if event.what == "claimed" and (begun is None or event.fence in begun)
            }
            spent -= {event.fence for event in life if _is_free(event, begun)}
            most = max((run.most.get(task.id) or task.limit) - carried, 1)
            if len(spent) > most:
                yield f"{task.id}: was run {len(spent)} times, and {most} were allowed"


def _is_free(event: Event, begun: set[int] | None) -> bool:
    """Whether this gave a claim back without spending an attempt, and rightly so: what has begun is no lost answer."""
    return event.what in GIVEN_BACK and (begun is None or event.what == "rescheduled" or event.why == SHUT_DOWN)


def order_per_key(run: Run) -> Iterator[str]:
    """Tasks of one ordering key run one at a time, in the order in which their producer submitted them."""
    keys: dict[str, list[Task]] = defaultdict(list)
    for task in run.tasks:
        if task.ordering_key is not None:
            keys[task.ordering_key].append(task)
    doubt = run.given.set_back
    for key, members in keys.items():
        times = sorted((begin, end or FOREVER, task.id) for task in members for begin, end in stays(task))
        for (before, end, one), (begin, last, other) in pairwise(times):
            # Where the clock was set back, either of the two may have been the first.
            if one != other and begin < end - doubt and before < last - doubt:
                yield f"{other}: began before {one} of the same ordering key {key!r} had stopped"
        yield from _in_submit_order(run, key, {task.id for task in members})


def _in_submit_order(run: Run, key: str, members: set[str]) -> Iterator[str]:
    submits = [submit for submit in run.answered if submit.task_id in members]
    firsts: dict[str, Submitted] = {}
    for submit in submits:
        if submit.task_id is not None:
            firsts.setdefault(submit.task_id, submit)
    answered = sorted(firsts.values(), key=lambda submit: submit.answered or 0)
    latest: tuple[datetime | None, str] | None = None
    place = 0
    for submit in sorted(firsts.values(), key=lambda submit: submit.number):
        while place < len(answered) and (answered[place].answered or 0) < submit.number:
            task = run.known[answered[place].task_id or ""]
            ended = next((event.at for event in task.history if event.status.ended), None)
            if latest is None or (latest[0] is not None and (ended is None or ended > latest[0])):
                latest = ended, task.id
            place += 1
        later = run.known[submit.task_id or ""]
        began = next((event.at for event in later.history if event.what == "claimed"), None)
        if began is not None and latest is not None and (latest[0] is None or began < latest[0] - run.given.set_back):
            yield f"{later.id}: began before {latest[1]}, submitted earlier with ordering key {key!r}, had ended"


def one_task_per_idempotency_key(run: Run) -> Iterator[str]:
    """While a key's record lives, everybody who gives it gets the same task."""
    groups: dict[str, set[str]] = defaultdict(set)
    if run.given.keys_by_type:
        for task in run.tasks:
            if task.idempotency_key is not None:
                groups[f"{task.type} {task.idempotency_key}"].add(task.id)
    named: dict[str, str] = {}
    for submit in run.journal.submits:
        if submit.key is not None:
            named[submit.name] = submit.key
            if submit.task_id is not None:
                groups[submit.key].add(submit.task_id)
    for task_id, name in run.names.items():
        if name in named:
            groups[named[name]].add(task_id)
    # A submit is stamped before it is on its way, and judged by the time at which it arrives.
    doubt = run.given.set_back + run.given.set_forward + run.given.on_the_way
    for members in groups.values():
        tasks = sorted(
            (run.known[id_] for id_ in members if id_ in run.known), key=lambda task: (task.created_at, task.id)
        )
        for one, other in pairwise(tasks):
            if one.remember_until is not None and other.created_at < one.remember_until - doubt:
                key = one.idempotency_key or one.id
                yield f"{other.id}: was created with the idempotency key {key!r} that belongs to {one.id}"
    makers = Counter(submit.task_id for submit in run.answered if submit.created)
    for made, count in makers.items():
        if count > 1:
            yield f"{made}: was created {count} times"


def never_early(run: Run) -> Iterator[str]:
    """Nothing is claimed before it is due: by its producer's word, its retry policy, its handler's own wish."""
    for task in run.tasks:
        taken, first_life = claims(task), next(lives(task))
        submit = run.created.get(task.id)
        first = next((event for event in first_life if event.what == "claimed"), None)
        if submit is not None and submit.due is not None and first is not None and first.at < submit.due:
            yield f"{task.id}: {said(first)} came at {first.at}, before it was due at {submit.due}"
        elif taken and not _moved(task, taken[-1]) and taken[-1].at < task.available_at:
            yield f"{task.id}: {said(taken[-1])} came before it was due at {task.available_at}"
        for event, claim in pairwise(task.history):
            if claim.what != "claimed" or event.status is not Pending:
                continue
            pause = _pause(run, task, event, roll=0)
            if pause is not None and claim.at < event.at + pause:
                yield f"{task.id}: {said(claim)} came {claim.at - event.at} after {said(event)}, which asked for {pause}"


def _moved(task: Task, claim: Event) -> bool:
    """Whether a later step has moved the due time, so that it says nothing about this claim."""
    moving = {"retried", "rescheduled", "failed", "lapsed"}
    return any(event.number > claim.number and event.what in moving for event in task.history)


def _pause(run: Run, task: Task, event: Event, roll: float) -> timedelta | None:
    """How long a task waits after this step; None where nobody can know."""
    policy = task.retry or run.given.policy
    if event.what == "failed":
        return None if policy is None else timedelta(seconds=policy.delay(event.attempt, roll))
    if event.what == "rescheduled":
        finish = run.finishes.get((task.id, event.fence))
        return None if finish is None else timedelta(seconds=finish.delay)
    return timedelta(0) if event.what in ("lapsed", "retried") else None


def never_after_the_deadline(run: Run) -> Iterator[str]:
    """Nothing is claimed after its deadline, and nothing expires before it unless an operator says so."""
    for task in run.tasks:
        submit = run.created.get(task.id)
        deadline = task.expires_at if submit is None else submit.deadline
        for event in task.history:
            if event.what == "rescheduled" and submit is not None and deadline is not None:
                finish = run.finishes.get((task.id, event.fence))
                deadline += timedelta(seconds=finish.extended if finish else 0)
            if event.what == "claimed" and deadline is not None and event.at >= deadline:
                yield f"{task.id}: {said(event)} came after its deadline {deadline}"
            early = event.what == "expired" and submit is not None and (deadline is None or event.at < deadline)
            if early and not run.operated(task.id, "expire"):
                yield f"{task.id}: {said(event)} came before its deadline {deadline}"


def a_cancelled_pending_task_never_starts(run: Run) -> Iterator[str]:
    """From a cancel of a pending task on, nothing begins until an operator retries it."""
    for task in run.tasks:
        cancelled = False
        for event in task.history:
            cancelled = event.status is TaskStatus.Cancelled or (cancelled and event.what != "retried")
            if cancelled and event.what == "claimed":
                yield f"{task.id}: {said(event)} came after it was cancelled"
    retried: dict[str, list[int]] = defaultdict(list)
    for operation in run.journal.operations:
        if operation.what == "retry":
            retried[operation.task_id].append(operation.number)
    for operation in run.journal.operations:
        if operation.what != "cancel" or operation.status != TaskStatus.Cancelled or run.given.set_forward:
            continue
        for start in run.starts.get(operation.task_id, ()):
            answered = operation.answered or 0
            if start.number > answered and not any(number < start.number for number in retried[operation.task_id]):
                yield f"{operation.task_id}: began (entry {start.number}) after its cancel was acknowledged (entry {answered})"


def every_runnable_task_starts_once_faults_stop(run: Run) -> Iterator[str]:
    """When the last fault is over, whatever can run starts within lease and poll, and all ends."""
    for task in run.tasks:
        if run.given.all_ended and task.status in OPEN:
            yield f"{task.id}: is still {task.status}"
        if run.given.start_within is None or run.given.healed_at is None or task.ordering_key is not None:
            continue
        for event, claim in pairwise(task.history):
            pause = _longest_pause(run, task, event)
            if claim.what != "claimed" or pause is None:
                continue
            runnable = max(run.given.healed_at, event.at + pause)
            if claim.at > runnable + run.given.start_within:
                yield f"{task.id}: was runnable at {runnable}, and {said(claim)} came only at {claim.at}"


def _longest_pause(run: Run, task: Task, event: Event) -> timedelta | None:
    if event.what == "created":
        submit = run.created.get(task.id)
        return None if submit is None or submit.due is None else submit.due - event.at
    return _pause(run, task, event, roll=1) if event.status is Pending else None


def history_alone_rebuilds_the_state(run: Run) -> Iterator[str]:
    """The events of a task are steps that exist, one after the other, and lead to the task as it stands."""
    for task in run.tasks:
        yield from (f"{task.id}: {what}" for what in replay(task))


Invariant = Callable[[Run], Iterable[str]]
INVARIANTS: tuple[Invariant, ...] = (
    acknowledged_is_never_lost,
    nothing_runs_that_was_not_submitted,
    one_owner_at_a_time_by_store_time,
    fences_only_grow,
    no_write_of_an_old_fence_after_a_newer_one,
    one_ending_per_task,
    executions_started_at_most_max,
    order_per_key,
    one_task_per_idempotency_key,
    never_early,
    never_after_the_deadline,
    a_cancelled_pending_task_never_starts,
    every_runnable_task_starts_once_faults_stop,
    history_alone_rebuilds_the_state,
)


def broken_invariants(tasks: Iterable[Task], journal: Journal, circumstances: Circumstances) -> dict[str, list[str]]:
    """By name, the invariants that a run has broken, and how; empty when it kept them all."""
    run = Run(tasks, journal, circumstances)
    found = {_name(invariant): list(invariant(run)) for invariant in INVARIANTS}
    return {name: sentences for name, sentences in found.items() if sentences}


def _name(invariant: Invariant) -> str:
    name: str = getattr(invariant, "__name__")  # noqa: B009 - a callable need not have one
    return name.replace("_", " ")
