"""When to worry: each rule once, for Prometheus as an expression and for `tenure doctor` as a question to the queue.

`python -m tenure.observe.alerts` writes the rule file that is part of the package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from tenure.explain import human
from tenure.observe.figures import Figures, Flow
from tenure.task import TaskStatus

FILE = Path(__file__).with_name("tenure.rules.yml")

DEEP = 1000
GROWING = 100
FAILED_SHARE = 0.05
LEASES = 2
WAITS_LONG = 600
WAITS = 60
NEAR = 100


class State(NamedTuple):
    """What the doctor sees."""

    figures: Figures
    flow: Flow


class Look(NamedTuple):
    """What a question found."""

    firing: bool
    text: str


class Alert(NamedTuple):
    """One rule. What to do is said by `action`; `page` is what should wake somebody."""

    name: str
    alert: str
    summary: str
    expression: str
    lasts: str
    action: str
    look: Callable[[State], Look]
    page: bool = False

    @property
    def level(self) -> Literal["warning", "problem"]:
        """How bad it is, in the doctor's words."""
        return "problem" if self.page else "warning"


def _total(metric: str, by: str, labels: str = "") -> str:
    """Every worker shows the same store: take one of them, then add up."""
    return f"sum(max by ({by}) (tenure_{metric}{labels}))"


def _lately(metric: str, window: str = "15m") -> str:
    return f"sum(increase(tenure_{metric}[{window}]))"


PENDING = _total("queue_depth", "queue", '{status="pending"}')


DUE = "max(tenure_oldest_pending_seconds) > 0"
"""What is scheduled for another day may be as much as it likes."""


def _depth(state: State) -> Look:
    pending = state.figures.count(TaskStatus.Pending)
    return Look(pending > DEEP and state.figures.oldest_pending > 0, f"{pending:,} pending")


def _growth(state: State) -> Look:
    flow, pending = state.flow, state.figures.count(TaskStatus.Pending)
    text = f"{flow.submitted:,.3g} tasks/s came in lately, {flow.ended:,.3g} tasks/s ended"
    # What has just been submitted is no trend.
    return Look(state.figures.oldest_pending > WAITS and pending > GROWING and flow.submitted > flow.ended, text)


def _waiting(state: State) -> Look:
    oldest = state.figures.oldest_pending
    return Look(oldest > WAITS_LONG, f"the longest waiting task has been due for {human(timedelta(seconds=oldest))}")


def _running(state: State) -> Look:
    figures = state.figures
    text = f"{figures.count(TaskStatus.Running):,} running, the longest for {human(timedelta(seconds=figures.oldest_running))}"
    return Look(figures.oldest_running > LEASES * figures.lease, text)


def _leases(state: State) -> Look:
    lapsed = state.figures.lapsed
    return Look(lapsed > 0, f"{lapsed:,} claims have lapsed and wait for a worker to recover them")


def _failures(state: State) -> Look:
    share = state.flow.dead_share
    failed = state.figures.count(TaskStatus.Failed)
    return Look(share > FAILED_SHARE, f"{share:.1%} of what ran to an end lately; {failed:,} failed in all")


def _workers(state: State) -> Look:
    figures = state.figures
    if not figures.unhandled:
        return Look(firing=False, text=f"{figures.workers} alive")
    waiting = ", ".join(f"{type_!r} in queue {queue!r}" for queue, type_ in sorted(figures.unhandled))
    return Look(firing=True, text=f"{figures.workers} alive, and none takes {waiting}")


def _deadlines(state: State) -> Look:
    near = sum(state.figures.near_expiration.values())
    return Look(near > NEAR, f"{near:,} tasks will expire within a minute if nobody runs them")


def _pauses(state: State) -> Look:
    paused = state.figures.paused
    names = ", ".join(f"{name}{f' ({reason})' if reason else ''}" for name, reason in paused.items())
    return Look(bool(paused), f"paused: {names}" if paused else "none")


def _records(state: State) -> Look:
    damaged = state.figures.damaged
    return Look(damaged > 0, f"{damaged} records cannot be read and were set aside" if damaged else "all can be read")


ALERTS = (
    Alert(
        "depth", "TenureManyPending", f"More than {DEEP} tasks are pending",
        f"{PENDING} > {DEEP} and {DUE}", "5m",
        "Add workers or concurrency, or slow the producers down.", _depth,
    ),
    Alert(
        "growth", "TenureBacklogGrows", "The backlog grows without end",
        f"deriv(({PENDING})[30m:1m]) > 0 and {PENDING} > {GROWING} and {DUE}", "30m",
        "More comes in than ends: add workers, or find out which type became slow.", _growth,
    ),
    Alert(
        "waiting", "TenureTasksWait", "A task has been due for more than ten minutes",
        f"max(tenure_oldest_pending_seconds) > {WAITS_LONG}", "5m",
        "tenure status ID says why a task does not run; then add workers, or resume the queue.", _waiting,
    ),
    Alert(
        "running", "TenureRunsLong", "An attempt runs for longer than twice the lease",
        f"max(tenure_running_age_seconds) > {LEASES} * max(tenure_lease_seconds)", "5m",
        "If that is not usual for it: tenure list --status running, and give the type a timeout.", _running,
    ),
    Alert(
        "leases", "TenureLeasesLapse", "Leases lapse: workers die, freeze, or lose the store",
        f"{_lately('leases_lapsed_total')} + ({_lately('leases_lost_total')} or vector(0)) > 0", "0m",
        "Look for killed or frozen workers (memory, CPU limits); every worker that is started recovers lapsed claims.", _leases,
    ),
    Alert(
        "failures", "TenureManyFailures", f"More than {FAILED_SHARE:.0%} of what runs to an end fails",
        f"{_lately('tasks_dead_total')} / ({_lately('tasks_dead_total')} + {_lately('tasks_completed_total')})"
        f" > {FAILED_SHARE}", "5m",
        "tenure dlq list shows the errors; mend the cause, then tenure dlq requeue.", _failures,
    ),
    Alert(
        "workers", "TenureNoWorker", "Tasks wait that no live worker takes",
        f"{_total('tasks_unhandled', 'task_type, queue')} > 0 or max(tenure_workers) == 0 or absent(tenure_workers)", "2m",
        "Start a worker that has these handlers: tenure worker MODULE:OBJECT", _workers, page=True,
    ),
    Alert(
        "deadlines", "TenureNearExpiration", f"More than {NEAR} tasks are about to expire",
        f"{_total('tasks_near_expiration', 'task_type')} > {NEAR}", "1m",
        "They will never run: add workers, or give them more time.", _deadlines,
    ),
    Alert(
        "pauses", "TenurePaused", "A queue has been paused for an hour",
        "max(tenure_queues_paused) > 0", "1h", "tenure resume QUEUE", _pauses,
    ),
    Alert(
        "records", "TenureDamagedRecords", "Records cannot be read",
        "max(tenure_records_damaged) > 0", "0m",
        "Look for a disk or backup problem; the ids are in the notes of kind 'damaged'.", _records, page=True,
    ),
)  # fmt: skip

STORE = (
    "TenureStoreFails", "More than 5% of the calls of the store fail",
    'sum(rate(tenure_store_requests_total{outcome=~"failed|cancelled"}[5m])) / sum(rate(tenure_store_requests_total[5m])) > 0.05',
    "5m", "Look at the store and the network; workers wait and go on by themselves.",
)  # fmt: skip
"""The doctor finds this out by trying, before it asks anything."""


def rules(prefix: str = "tenure") -> str:
    """The rule file of Prometheus, for metrics with this prefix. JSON's texts are YAML's, too."""
    return "\n".join(_lines(prefix)) + "\n"


def _lines(prefix: str) -> Iterator[str]:
    yield "# Written by python -m tenure.observe.alerts; tenure doctor evaluates the same rules."
    yield "groups:"
    yield f"  - name: {prefix}"
    yield "    rules:"
    for alert in ALERTS:
        severity = "page" if alert.page else "warning"
        yield from _rule(prefix, alert.alert, alert.summary, alert.expression, alert.lasts, alert.action, severity)
    yield from _rule(prefix, *STORE, "page")


def _rule(
    prefix: str, name: str, summary: str, expression: str, lasts: str, action: str, severity: str
) -> Iterator[str]:
    yield f"      - alert: {name}"
    yield f"        expr: {json.dumps(expression.replace('tenure_', f'{prefix}_'))}"
    yield f"        for: {lasts}"
    yield "        labels:"
    yield f"          severity: {severity}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(summary)}"
    yield f"          description: {json.dumps(action)}"


if __name__ == "__main__":
    FILE.write_text(rules())
