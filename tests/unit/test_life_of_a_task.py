"""Random lives of one task, with late workers, operators and a clock that stops at every boundary.

The machine plays the store: it holds one version and takes the next only if it was computed
from that one. After each step it checks what the contract promises about a single task.
"""

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tenure import lifecycle
from tenure.errors import (
    CannotCancel,
    CannotClaim,
    CannotExpire,
    CannotRetry,
    LeaseLost,
)
from tenure.lifecycle import Failure
from tenure.retry import RetryPolicy, effective_max
from tenure.task import TaskStatus, decode, encode

from .builders import LEASE, NOW, OUTPUT, at, pending

Pending, Running = TaskStatus.Pending, TaskStatus.Running
POLICIES = [
    None,
    RetryPolicy(),
    RetryPolicy.patient(),
    RetryPolicy(base=0, max_attempts=0),
    RetryPolicy(max_attempts=3),
]
ROLLS = st.floats(0, 1, exclude_max=True)
DELAYS = st.sampled_from([0, 0.25, 5, 29.999999, 30, 31, 120])
FINAL = (TaskStatus.Completed, TaskStatus.Expired, TaskStatus.Archived)
BEHIND = st.sampled_from([0, 0, 0, 0, 1, 2, -1])
SELDOM = st.sampled_from([False, False, False, True])


def rebuilt(history):
    """Status, fence, attempts, owner and whether a stop was asked for, from the events alone."""
    attempts, asked, before = 0, False, ""
    for event in history:
        if event.what == "claimed":
            assert event.attempt == attempts + 1
        elif event.what == "completed":
            assert event.attempt == (attempts if before == "lapsed" else attempts + 1)
        else:
            attempts = event.attempt
        asked = event.what in ("cancel requested", "cancelled", "stopped") or (asked and event.what != "retried")
        before = event.what
    last = history[-1]
    owner = last.worker if last.status is Running else None
    return last.status, last.fence, attempts, owner, asked


SUBMITS = st.fixed_dictionaries(
    {
        "available_at": st.sampled_from([NOW, at(10)]),
        "expires_at": st.sampled_from([None, None, None, NOW, at(45), at(200)]),
        "max_attempts": st.integers(0, 4),
        "max_reschedules": st.sampled_from([None, 0, 2]),
        "retry": st.sampled_from(POLICIES),
    }
)


STEPS = {
    "complete": lambda task, fence, now: lifecycle.complete(task, fence, OUTPUT, now),
    "fail": lambda task, fence, now: lifecycle.fail(task, fence, Failure("boom"), RetryPolicy(), now, 0.5),
    "release": lambda task, fence, now: lifecycle.release(task, fence, now, "shut down"),
    "reschedule": lambda task, fence, now: lifecycle.reschedule(task, fence, now, 60),
    "stop": lifecycle.stop,
}

waits = precondition(lambda self: self.task.status is Pending)
runs = precondition(lambda self: self.task.status is Running)
rests = precondition(lambda self: self.task.status is not Running)
has_ended = precondition(lambda self: self.task.status.ended)


class LifeOfATask(RuleBasedStateMachine):
    @initialize(words=SUBMITS)
    def someone_submits(self, words):
        self.now = NOW
        self.task = pending(**words)
        self.seen = [self.task]
        self.starts = self.given_back = self.kept = self.endings = self.completions = 0

    @precondition(lambda self: self.task.status in FINAL)
    @rule(words=SUBMITS)
    def someone_submits_another(self, words):
        self.someone_submits(words)

    def put(self, before, after):
        """Swap: the change is taken only by the version that it was computed from."""
        if after is before or before.version != self.task.version:
            return
        assert after.version == before.version + 1
        assert after.fence >= before.fence
        assert decode(encode(after)) == after
        if after.status.ended and not before.status.ended:
            self.endings += 1
            self.completions += after.status is TaskStatus.Completed
        self.task = after
        self.seen.append(after)

    @rule(delay=DELAYS)
    def time_passes(self, delay):
        self.now += timedelta(seconds=delay)

    @rule(field=st.sampled_from(["available_at", "expires_at", "lease_expires_at"]), off=st.sampled_from([-1, 0, 1]))
    def time_comes_to_a_boundary(self, field, off):
        boundary = getattr(self.task, field)
        if boundary is not None and boundary.year < 9999:
            self.now = max(self.now, boundary + timedelta(microseconds=off))

    @rule(off=st.sampled_from([None, -1, 0, 1]))
    def someone_sweeps(self, off):
        if off is not None:
            self.time_comes_to_a_boundary("lease_expires_at" if self.task.status is Running else "expires_at", off)
        after = lifecycle.overdue(self.task, self.now)
        if after is None:
            assert self.task.status is not Running or self.now < self.task.lease_expires_at
            assert self.task.status is not Pending or not self.task.is_expired_at(self.now)
        else:
            assert after.status is not Pending or after.available_at == self.now
            self.put(self.task, after)

    @waits
    @rule(worker=st.sampled_from(["w1", "w2", "w3"]), policy=st.sampled_from(POLICIES), until_due=st.booleans())
    def a_worker_claims(self, worker, policy, until_due):
        task = self.task
        if until_due and task.available_at.year < 9999:
            self.now = max(self.now, task.available_at)
        policy_max = None if policy is None else policy.max_attempts
        claimable = task.available_at <= self.now and not task.is_expired_at(self.now)
        try:
            after = lifecycle.claim(task, worker_id=worker, now=self.now, lease=LEASE, policy_max=policy_max)
        except CannotClaim:
            assert not claimable
            return
        assert claimable
        assert after.fence > task.fence
        own = policy_max if task.retry is None else task.retry.max_attempts
        assert after.limit == (task.limit or effective_max(task.max_attempts, own))
        self.starts += 1
        self.put(task, after)

    @rule(back=st.integers(1, 3))
    def a_worker_claims_by_what_it_saw_before(self, back):
        seen = self.seen[max(-len(self.seen), -1 - back)]
        current = self.task
        try:
            after = lifecycle.claim(seen, worker_id="w4", now=self.now, lease=LEASE, policy_max=25)
        except CannotClaim:
            return
        if seen.version != current.version:
            self.put(seen, after)
            assert self.task is current

    @rests
    @rule(behind=BEHIND, step=st.sampled_from(sorted(STEPS)))
    def a_worker_writes_what_is_no_longer_its_own(self, behind, step):
        self.of_a_worker(behind, lambda task, fence: STEPS[step](task, fence, self.now))

    def of_a_worker(self, behind, step):
        """Workers come with the newest fence, an older one, or one that they made up; only the newest counts."""
        before = self.task
        fence = before.fence - behind
        lapsed_unnoticed = before.status is Pending and before.history[-1].what == "lapsed"
        mine = before.fence == fence
        try:
            after = step(before, fence)
        except LeaseLost:
            assert not (mine and before.status is Running)
            return None
        assert mine
        assert after is before or before.status is Running or lapsed_unnoticed
        self.put(before, after)
        return after

    @runs
    @rule(behind=BEHIND)
    def a_handler_returns(self, behind):
        self.of_a_worker(behind, lambda task, fence: lifecycle.complete(task, fence, OUTPUT, self.now))

    @runs
    @rule(behind=BEHIND, policy=st.sampled_from(POLICIES), permanent=SELDOM, roll=ROLLS)
    def a_handler_fails(self, behind, policy, permanent, roll):
        failure = Failure("boom", permanent=permanent)
        self.of_a_worker(behind, lambda task, fence: lifecycle.fail(task, fence, failure, policy, self.now, roll))

    @runs
    @rule(behind=BEHIND, delay=DELAYS, extension=st.sampled_from([0, 60]))
    def a_handler_asks_for_later(self, behind, delay, extension):
        before = self.task
        after = self.of_a_worker(
            behind, lambda task, fence: lifecycle.reschedule(task, fence, self.now, delay, extension)
        )
        if after is not None and after.status is Pending:
            self.given_back += 1
            assert after.attempts == before.attempts
            assert (after.expires_at is None) is (before.expires_at is None)

    @runs
    @rule(behind=BEHIND)
    def a_worker_gives_back(self, behind):
        before = self.task
        after = self.of_a_worker(behind, lambda task, fence: lifecycle.release(task, fence, self.now, "shut down"))
        if after is not None and after.status is Pending:
            self.given_back += 1
            assert after.attempts == before.attempts

    @runs
    @rule(behind=BEHIND)
    def a_handler_stops(self, behind):
        if self.task.cancel_requested:
            self.of_a_worker(behind, lambda task, fence: lifecycle.stop(task, fence, self.now))

    @runs
    @rule(behind=BEHIND, lease=DELAYS)
    def a_worker_renews(self, behind, lease):
        before = self.task
        fence = before.fence - behind
        try:
            after = lifecycle.renew(before, fence, self.now + timedelta(seconds=lease))
        except LeaseLost:
            assert before.status is not Running or before.fence != fence
            return
        assert (before.status, before.fence) == (Running, fence)
        assert after.lease_expires_at >= before.lease_expires_at
        assert (after.version, after.history) == (before.version, before.history)
        self.task = after

    @rule()
    def an_operator_cancels(self):
        before = self.task
        try:
            after = lifecycle.cancel(before, self.now, "not needed", "ada")
        except CannotCancel:
            assert before.status.ended
            return
        assert before.status is not Pending or after.status is TaskStatus.Cancelled
        self.put(before, after)

    @rule(really=SELDOM)
    def an_operator_expires(self, really):
        if not really:
            return
        before = self.task
        try:
            after = lifecycle.expire(before, self.now)
        except CannotExpire:
            assert before.status is not Pending
            return
        self.put(before, after)
        assert after.attempts == before.attempts

    @has_ended
    @rule(keep_attempts=st.booleans())
    def an_operator_retries(self, keep_attempts):
        before = self.task
        try:
            after = lifecycle.retry(before, self.now, keep_attempts=keep_attempts)
        except CannotRetry:
            assert before.status not in (TaskStatus.Failed, TaskStatus.Cancelled)
            return
        self.put(before, after)
        assert before.status in (TaskStatus.Failed, TaskStatus.Cancelled)
        assert after.attempts == (before.attempts if keep_attempts else 0)
        assert after.history[-1].what == "retried"
        self.starts = self.given_back = self.endings = 0
        self.kept = after.attempts

    @has_ended
    @rule(really=SELDOM)
    def an_operator_archives(self, really):
        if not really:
            return
        self.put(self.task, lifecycle.archive(self.task, self.now))
        assert self.task.status is TaskStatus.Archived

    @invariant()
    def history_alone_rebuilds_the_state(self):
        task = self.task
        if not task.history_omitted:
            state = (task.status, task.fence, task.attempts, task.worker_id, task.cancel_requested)
            assert rebuilt(task.history) == state
            assert [event.number for event in task.history] == list(range(1, task.version + 1))

    @invariant()
    def the_version_is_the_number_of_the_last_event(self):
        assert self.task.version == self.task.history[-1].number

    @invariant()
    def fences_and_times_only_grow(self):
        for before, after in zip(self.seen, self.seen[1:], strict=False):
            assert before.fence <= after.fence
            assert before.updated_at <= after.updated_at
        claims = [event.fence for event in self.seen[-1].history if event.what == "claimed"]
        assert claims == sorted(set(claims))

    @invariant()
    def each_life_has_one_ending_at_most(self):
        assert self.endings == self.task.status.ended
        assert self.completions <= 1

    @invariant()
    def no_more_executions_than_the_limit(self):
        if self.task.limit:
            assert self.starts - self.given_back <= max(self.task.limit - self.kept, 1)
            assert self.task.attempts <= max(self.task.limit, self.kept + 1)

    @invariant()
    def a_lease_belongs_to_a_running_task_and_an_end_to_an_ended_one(self):
        running = self.task.status is Running
        assert (self.task.lease_expires_at is not None) is running
        assert (self.task.worker_id is not None) is running
        assert (self.task.ended_at is not None) is self.task.status.ended
        assert not (self.task.status is Pending and self.task.cancel_requested)
        assert self.task.max_reschedules is None or self.task.reschedules <= self.task.max_reschedules


TestLifeOfATask = LifeOfATask.TestCase
TestLifeOfATask.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
