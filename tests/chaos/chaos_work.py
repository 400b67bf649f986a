"""What a chaos run submits, and what its handlers do. One seed, one plan."""

import random
from dataclasses import dataclass, field
from typing import Any

LEASE = 1.0
POLL = 0.2
KEYS = 20
POISONED, NO_STORE = 9, 4
"""How a worker ends that a handler has killed, and one that found no store when it started."""


@dataclass
class Job:
    """A submit that some producer makes."""

    type: str
    input: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    cancel: bool = False
    number: int = 0


def plan(count, seed):
    """The jobs of a run, in lines: the jobs of one line are submitted one after the other, lines at the same time."""
    dice = random.Random(f"plan {seed}")
    lines = [[] for _ in range(KEYS)]
    tasks = set()
    number = 0
    while len(tasks) < count:
        line = dice.randrange(KEYS)
        job = _job(dice, number, line, count)
        job.number = number
        lines[line].append(job)
        # Jobs with the same key or chosen id are one task.
        tasks.add(job.options.get("task_id") or job.input["name"])
        number += 1
    return lines


def _job(dice, number, line, count):
    kind = dice.choices(
        [
            "plain",
            "thread",
            "flaky",
            "doomed",
            "later",
            "expiring",
            "ordered",
            "keyed",
            "chosen",
            "urgent",
            "poison",
            "long",
            "again",
            "cancelled",
        ],
        [22, 8, 12, 4, 9, 8, 14, 6, 6, 5, 0.1, 0.9, 3, 2],
    )[0]
    name = f"{kind} {number}"
    match kind:
        case "flaky":
            return Job("flaky", {"name": name, "failures": dice.randrange(1, 4)})
        case "doomed":
            return Job("doomed", {"name": name}, {"max_attempts": 2})
        case "later":
            return Job("plain", {"name": name}, {"delay": dice.uniform(0, 4)})
        case "expiring":
            delay = dice.choice([0, 0, dice.uniform(0, 2)])
            return Job("plain", {"name": name}, {"ttl": dice.uniform(0, 2), "delay": delay})
        case "ordered":
            return Job("ordered", {"name": name}, {"ordering_key": f"key {line}"})
        case "keyed":
            key = dice.randrange(max(count // 60, 1))
            return Job("plain", {"name": f"keyed {key}"}, {"idempotency_key": f"key {key}"}, repeats=2)
        case "chosen":
            return Job("plain", {"name": name}, {"task_id": f"chosen-{dice.randrange(max(count // 60, 1))}"}, repeats=2)
        case "urgent":
            return Job("plain", {"name": name}, {"priority": dice.randrange(1, 4)})
        case "again":
            return Job("again", {"name": name}, {"max_reschedules": 3})
        case "cancelled":
            # Under an id of its own: a producer that is killed before it cancels finds the same task when it goes on.
            return Job("plain", {"name": name}, {"delay": 3600, "task_id": name}, cancel=True)
        case "poison":
            return Job("poison", {"name": name}, {"max_attempts": 2})
    return Job(kind, {"name": name})
