"""What the store says, in the words of the metrics."""

from collections import Counter

KINDS = {
    "created": "tasks_submitted_total",
    "completed": "tasks_completed_total",
    "expired": "tasks_expired_total",
    "cancelled": "tasks_cancelled_total",
    "stopped": "tasks_cancelled_total",
    "rescheduled": "tasks_rescheduled_total",
    "released": "tasks_released_total",
    "retried": "tasks_requeued_total",
}
COUNTED = (*KINDS.values(), "tasks_failed_total", "tasks_retried_total", "tasks_dead_total", "leases_lapsed_total")


def told_by_the_store(tasks):
    """Every count that the histories of these tasks show, by metric, type and queue."""
    counts = Counter()
    for task in tasks:
        for event in task.history:
            labels = (task.type, task.queue)
            if event.what in KINDS:
                counts[KINDS[event.what], *labels] += 1
            if event.what in ("failed", "lapsed"):
                counts["tasks_failed_total", *labels] += 1
                counts["tasks_retried_total" if event.status == "pending" else "tasks_dead_total", *labels] += 1
            if event.what == "lapsed":
                counts["leases_lapsed_total", *labels] += 1
    return counts


def told_by_metrics(registry, prefix="tenure"):
    """The same from a registry: reasons added up, zeros left out."""
    counts = Counter()
    for family in registry.collect():
        for sample in family.samples:
            name = sample.name.removeprefix(f"{prefix}_")
            if name in COUNTED and sample.value:
                counts[name, sample.labels["task_type"], sample.labels["queue"]] += int(sample.value)
    return counts
