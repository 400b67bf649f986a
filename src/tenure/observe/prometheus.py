"""Prometheus: counters and histograms from the events, gauges from a bounded look at the store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from tenure import times
from tenure.errors import MissingExtra
from tenure.observe.events import (
    Cancelled,
    Claimed,
    Completed,
    Expired,
    Failed,
    Lapsed,
    Lost,
    Outcome,
    Released,
    Requeued,
    Rescheduled,
    Submitted,
    Subscriber,
    TaskEvent,
)
from tenure.observe.figures import Figures, look
from tenure.queue import Queue
from tenure.task import TaskStatus

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ModuleNotFoundError:
    raise MissingExtra("Prometheus", "metrics") from None

MINUTE, HOUR, DAY = 60, 3600, 86_400
DURATIONS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
)  # fmt: skip
"""From a millisecond to half a day."""
WAITS = (*DURATIONS, DAY, 7 * DAY)
TTLS = (
    1, 10, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY, 90 * DAY, 180 * DAY, 365 * DAY,
)  # fmt: skip
"""From a second to a year."""
CALLS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

OTHER = "other"
REASONS = ("error", "timeout", "permanent", "input", "lapsed")
MANY = 10_000
TASK = ("task_type", "queue")


class Names:
    """Labels are bounded: what comes after the first `limit` names is counted as `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """The label of a name."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= self._limit:
                return OTHER
            known = self._known[name] = name
        return known


class Pairs:
    """Types and queues together are bounded, too: 200 of each would make 40,000 sets of series."""

    def __init__(self, names: int, limit: int) -> None:
        self.type, self.queue = Names(names), Names(names)
        self._limit = limit
        self._known: set[tuple[str, str]] = set()

    def __call__(self, type_: str, queue: str) -> tuple[str, str]:
        """The labels of a type in a queue."""
        pair = self.type(type_), self.queue(queue)
        if pair not in self._known:
            if len(self._known) >= self._limit:
                return OTHER, OTHER
            self._known.add(pair)
        return pair


def observe_all(histogram: Any, values: Sequence[float]) -> None:
    """`observe` for each value, but one step per bucket: a batch has many values and they fall into few."""
    bounds, buckets = histogram._upper_bounds, histogram._buckets  # noqa: SLF001 - there is no public way to add many
    values, counted = sorted(values), 0
    while counted < len(values):
        bucket = bisect_left(bounds, values[counted])
        beyond = bisect_right(values, bounds[bucket], counted)
        buckets[bucket].inc(beyond - counted)
        counted = beyond
    histogram._sum.inc(sum(values))  # noqa: SLF001


class Metrics:
    """Every metric there is. Two observers of one registry share them; the gauges are there when somebody has looked."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        def counter(name: str, text: str, labels: Sequence[str] = TASK) -> Counter:
            return Counter(f"{prefix}_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = TASK) -> Histogram:
            return Histogram(f"{prefix}_{name}", text, labels, registry=registry, buckets=buckets)

        self.submitted = counter("tasks_submitted_total", "Tasks created.")
        self.completed = counter("tasks_completed_total", "Tasks completed.")
        self.failed = counter("tasks_failed_total", "Attempts that failed.", (*TASK, "reason"))
        self.retried = counter("tasks_retried_total", "Failed attempts that are followed by another.")
        self.dead = counter("tasks_dead_total", "Tasks that ended as dead letters.")
        self.expired = counter("tasks_expired_total", "Tasks whose deadline passed before anyone began.")
        self.cancelled = counter("tasks_cancelled_total", "Tasks cancelled.")
        self.rescheduled = counter("tasks_rescheduled_total", "Handlers that asked to run again later.")
        self.released = counter("tasks_released_total", "Claims given back unfinished.")
        self.requeued = counter("tasks_requeued_total", "Ended tasks that an operator put back.")
        self.lapsed = counter("leases_lapsed_total", "Leases that ran out before the worker finished.")
        self.lost = counter(
            "leases_lost_total", "Ends that were refused, because the claim was no longer the worker's."
        )
        self.late = counter("tasks_settled_late_total", "Tasks completed after their lease had lapsed.")
        self.ttl = histogram("task_ttl_seconds", "Time to live given at the submit.", TTLS)
        self.wait = histogram("task_wait_seconds", "From being due to being claimed.", WAITS)
        self.duration = histogram("task_duration_seconds", "Run time of handlers.", DURATIONS)
        self.requests = counter("store_requests_total", "Calls of the store.", ("operation", "outcome"))
        self.request = histogram("store_request_seconds", "Time of the calls of the store.", CALLS, ("operation",))
        self._registry, self._prefix = registry, prefix

    @cached_property
    def gauges(self) -> Gauges:
        """Those of the moment, made at the first look: in a process that never looks, they would all say zero."""
        return Gauges(self._registry, self._prefix)


class Gauges:
    """What shows the moment."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
            # All workers look at the same store, so the latest look of one that lives is the one that counts.
            return Gauge(f"{prefix}_{name}", text, labels, registry=registry, multiprocess_mode="livemostrecent")

        self.depth = gauge("queue_depth", "Tasks in the store.", ("queue", "status"))
        self.near = gauge("tasks_near_expiration", "Pending tasks that will expire soon.", ("task_type",))
        self.oldest = gauge("oldest_pending_seconds", "Time for which the longest waiting due task has been due.")
        self.running_age = gauge("running_age_seconds", "Age of the attempt that runs longest.")
        self.lease = gauge("lease_seconds", "Length of the leases of the workers.")
        self.unhandled = gauge(
            "tasks_unhandled", "Pending tasks, where something is due that no live worker takes.", TASK
        )
        self.workers = gauge("workers", "Workers that gave a sign of life in the last minute.")
        self.paused = gauge("queues_paused", "Paused queues.")
        self.damaged = gauge("records_damaged", "Records that cannot be read and were set aside.")


_made: WeakKeyDictionary[CollectorRegistry, dict[str, Metrics]] = WeakKeyDictionary()


class Prometheus(Subscriber):
    """Keeps the metrics of a process up to date.

    `soon` is how far ahead `tasks_near_expiration` looks; `max_names` bounds the types and the queues that get
    a label of their own, `max_pairs` the types in queues.
    """

    def __init__(
        self,
        registry: CollectorRegistry = REGISTRY,
        *,
        prefix: str = "tenure",
        soon: float | timedelta = 60.0,
        max_names: int = 200,
        max_pairs: int = 1000,
    ) -> None:
        self.registry = registry
        made = _made.setdefault(registry, {})
        if prefix not in made:
            made[prefix] = Metrics(registry, prefix)
        self.metrics = metrics = made[prefix]
        self._soon = times.seconds(soon, "soon")
        self._pair = Pairs(max_names, max_pairs)
        self._children: dict[tuple[Any, ...], Any] = {}
        self._seen: set[tuple[str, str]] = set()
        self._shown: set[tuple[Gauge, tuple[str, ...]]] = set()
        self._counted: dict[type[TaskEvent], Counter] = {
            Submitted: metrics.submitted,
            Completed: metrics.completed,
            Expired: metrics.expired,
            Cancelled: metrics.cancelled,
            Rescheduled: metrics.rescheduled,
            Released: metrics.released,
            Requeued: metrics.requeued,
            Lost: metrics.lost,
        }
        self._observed: dict[type[TaskEvent], Callable[[list[Any], str, str], None]] = {
            Submitted: self._submitted,
            Claimed: self._claimed,
            Completed: self._completed,
            Failed: self._failed,
            Lapsed: self._failed,
        }

    def happened(self, events: Sequence[TaskEvent]) -> None:  # noqa: D102 - as the base says
        groups: dict[tuple[type[TaskEvent], str, str], list[Any]] = {}
        kind, type_, queue, group = TaskEvent, "", "", []
        for event in events:
            task = event.task
            # Many of one kind in a row are the rule, and comparing costs less than looking up.
            if type(event) is not kind or task.type != type_ or task.queue != queue:
                kind, type_, queue = type(event), task.type, task.queue
                group = groups.setdefault((kind, type_, queue), [])
            group.append(event)
        for (kind, type_, queue), group in groups.items():
            if (type_, queue) not in self._seen:
                self._show_zeros(type_, queue)
            if (counter := self._counted.get(kind)) is not None:
                self._child(counter, type_, queue).inc(len(group))
            if (observe := self._observed.get(kind)) is not None:
                observe(group, type_, queue)

    def worker_begins(self, queues: Sequence[str], types: Sequence[str]) -> None:
        """A counter that appears with its first count looks as if it had never risen, so those of a worker appear before that."""
        for type_ in types:
            for queue in queues:
                self._show_zeros(type_, queue)

    def _show_zeros(self, type_: str, queue: str) -> None:
        if len(self._seen) < MANY:
            self._seen.add((type_, queue))
        metrics = self.metrics
        for counter in (*self._counted.values(), metrics.retried, metrics.dead, metrics.lapsed, metrics.late):
            self._child(counter, type_, queue)
        for reason in REASONS:
            self._child(metrics.failed, type_, queue, reason)

    def store_called(self, operation: str, seconds: float, outcome: Outcome) -> None:  # noqa: D102
        self.metrics.requests.labels(operation, outcome).inc()
        self.metrics.request.labels(operation).observe(seconds)

    def _child(self, metric: Counter | Histogram, type_: str, queue: str, *more: str) -> Any:
        """Looking labels up costs more than counting, so they are looked up once."""
        key = (metric, type_, queue, *more)
        child = self._children.get(key)
        if child is None:
            child = metric.labels(*self._pair(type_, queue), *more)
            if len(self._children) < MANY:
                self._children[key] = child
        return child

    def _submitted(self, events: list[Submitted], type_: str, queue: str) -> None:
        tasks = [event.task for event in events]
        lives = [
            max((task.expires_at - task.created_at).total_seconds(), 0) for task in tasks if task.expires_at is not None
        ]
        if lives:
            observe_all(self._child(self.metrics.ttl, type_, queue), lives)

    def _claimed(self, events: list[Claimed], type_: str, queue: str) -> None:
        tasks = [event.task for event in events]
        waits = [(task.started_at - task.available_at).total_seconds() for task in tasks if task.started_at is not None]
        if waits:
            observe_all(self._child(self.metrics.wait, type_, queue), waits)

    def _completed(self, events: list[Completed], type_: str, queue: str) -> None:
        durations = [event.seconds for event in events if event.seconds is not None]
        if durations:
            observe_all(self._child(self.metrics.duration, type_, queue), durations)
        # Submitted, claimed, completed: with no more than that nothing has lapsed.
        if late := sum(event.late for event in events if event.task.version > 3):
            self._child(self.metrics.late, type_, queue).inc(late)

    def _failed(self, events: list[Failed], type_: str, queue: str) -> None:
        metrics = self.metrics
        for event in events:
            self._child(metrics.failed, type_, queue, event.reason).inc()
            if isinstance(event, Lapsed):
                self._child(metrics.lapsed, type_, queue).inc()
            if event.retried:
                self._child(metrics.retried, type_, queue).inc()
            elif event.dead:
                self._child(metrics.dead, type_, queue).inc()
        durations = [event.seconds for event in events if event.seconds is not None]
        if durations:
            observe_all(self._child(metrics.duration, type_, queue), durations)

    # -- gauges

    async def look(self, queue: Queue) -> None:
        """Bring the gauges up to date; bounded, however full the store is."""
        self.show(await look(queue, self._soon))

    def show(self, figures: Figures) -> None:
        """Set the gauges; what is no longer there becomes zero."""
        gauges = self.metrics.gauges
        shown: dict[tuple[Gauge, tuple[str, ...]], float] = dict.fromkeys(self._shown, 0.0)

        def add(gauge: Gauge, value: float, *labels: str) -> None:
            shown[gauge, labels] = shown.get((gauge, labels), 0.0) + value

        for queue, statuses in figures.depth.items():
            for status in TaskStatus:
                add(gauges.depth, statuses.get(status.value, 0), self._pair.queue(queue), status.value)
        for type_, count in figures.near_expiration.items():
            add(gauges.near, count, self._pair.type(type_))
        for (queue, type_), count in figures.unhandled.items():
            add(gauges.unhandled, count, *self._pair(type_, queue))
        self._shown = set(shown)
        for (gauge, labels), value in shown.items():
            gauge.labels(*labels).set(value)
        gauges.oldest.set(figures.oldest_pending)
        gauges.running_age.set(figures.oldest_running)
        gauges.lease.set(figures.lease)
        gauges.workers.set(figures.workers)
        gauges.paused.set(len(figures.paused))
        gauges.damaged.set(figures.damaged)
