"""What a seed asks for: jobs, the settings of the workers, and the troubles. Each seed has its own mixture."""

from dataclasses import dataclass, field
from typing import Any

from tenure import RetryPolicy

POLICY = RetryPolicy(base=0.5, max_delay=3.0, max_attempts=4)
SLOT_DAYS = ("2026-01-28", "2026-01-29")

KINDS = {
    "plain": 8, "long": 3, "once": 3, "flaky": 5, "doomed": 2, "permanent": 1, "again": 3, "poison": 1, "blocking": 2,
    "stubborn": 2, "threaded": 3, "extending": 2, "timed": 2, "later": 5, "expiring": 5, "ordered": 10, "keyed": 6,
    "short key": 2, "chosen": 3, "slot": 2, "conflict": 2, "urgent": 3, "batch": 2,
}  # fmt: skip


@dataclass
class Job:
    """A submit that some producer makes, as often as `repeats` says."""

    type: str
    name: str
    input: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1

    @property
    def key(self):
        """What asks for the same task: see `Submitted.key`."""
        options = self.options
        if "idempotency_key" in options:
            scope = options.get("idempotency_scope", "task_type")
            return f"key {self.type if scope == 'task_type' else '/' + scope} {options['idempotency_key']}"
        if "slot" in options:
            return f"slot {options['slot']}"
        return f"id {options['task_id']}" if "task_id" in options else None


class Plan:
    def __init__(self, dice):
        self.lease = dice.choice((2.0, 4.0, 6.0))
        self.poll = dice.choice((0.5, 1.0, 2.0))
        self.workers = dice.choice((1, 2, 2, 3))
        # With few slots a runnable task may have to wait for one, so only the others can be timed.
        self.concurrency = dice.choice((2, 3, 50, 50))
        # Some give their workers names that outlive them.
        self.names_stay = dice.random() < 0.3
        self.heals_at = dice.uniform(12, 30)
        self.calm = dice.random() < 0.1
        self.network = {
            "slow": _maybe(dice, 0.3),
            "lost_before": _maybe(dice, 0.15),
            "lost_after": _maybe(dice, 0.15),
            "duplicated": _maybe(dice, 0.1),
        }
        # Not every kind in every seed: some troubles only show when others are out of the way.
        kinds = [kind for kind in KINDS if dice.random() < 0.6] or ["plain"]
        count = dice.randrange(10, 35)
        self.lines = [
            [self._job(dice, kinds, f"{line}.{number}", line) for number in range(count // 2)] for line in (0, 1)
        ]
        self.troubles = [] if self.calm else self._troubles(dice)
        self.operations = [] if dice.random() < 0.2 else self._operations(dice)

    def parts(self):
        """Everything that can be left out to see whether it matters."""
        yield from (("network", name) for name, share in self.network.items() if share)
        yield from (("trouble", place) for place in range(len(self.troubles)))
        yield from (("operation", place) for place in range(len(self.operations)))
        yield from (("job", line, place) for line, jobs in enumerate(self.lines) for place in range(len(jobs)))

    def leave_out(self, parts):
        self.network = {name: 0.0 if ("network", name) in parts else share for name, share in self.network.items()}
        self.troubles = [part for place, part in enumerate(self.troubles) if ("trouble", place) not in parts]
        self.operations = [part for place, part in enumerate(self.operations) if ("operation", place) not in parts]
        self.lines = [
            [job for place, job in enumerate(jobs) if ("job", line, place) not in parts]
            for line, jobs in enumerate(self.lines)
        ]

    def _job(self, dice, kinds, number, line):
        kind = dice.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        name = f"{kind} {number}"
        given = {"name": name, "seconds": dice.choice((0.0, dice.uniform(0, 2)))}
        job = Job("plain", name, given)
        match kind:
            case "long":
                given["seconds"] = dice.uniform(self.lease, 3 * self.lease)
            case "once":
                given["seconds"], job.options = dice.uniform(self.lease, 3 * self.lease), {"max_attempts": 1}
            case "flaky":
                job.type, given["failures"] = "flaky", dice.randrange(1, 4)
            case "doomed":
                job.type, given["failures"], job.options = "flaky", 9, {"max_attempts": dice.randrange(1, 4)}
            case "permanent" | "stubborn" | "threaded" | "extending":
                job.type = kind
            case "again":
                job.type, given["times"], given["delay"] = "again", dice.randrange(1, 4), dice.uniform(0, 3)
                if dice.random() < 0.5:
                    given["extend"], job.options = dice.uniform(0, 5), {"ttl": dice.uniform(3, 10)}
            case "poison":
                job.type, job.options = "poison", {"max_attempts": dice.randrange(1, 3)}
            case "blocking":
                job.type, given["seconds"] = "blocking", dice.uniform(0, 2 * self.lease)
            case "timed":
                given["seconds"], job.options = 3.0, {"timeout": dice.uniform(0.5, 5), "max_attempts": 2}
            case "later":
                job.options = {"delay": dice.uniform(0, 12)}
            case "expiring":
                job.options = {
                    "ttl": dice.choice((0, dice.uniform(0, 6))),
                    "delay": dice.choice((0, dice.uniform(0, 4))),
                }
            case "ordered":
                job.type = dice.choice(("plain", "plain", "flaky"))
                given["failures"], job.options = dice.randrange(1, 3), {"ordering_key": f"line {line}"}
                if dice.random() < 0.2:
                    job.options["delay"] = dice.uniform(0, 3)
            case "keyed":
                key = dice.randrange(4)
                scope = dice.choice(("task_type", "queue", "ours"))
                job.name = given["name"] = f"keyed {scope} {key}"
                given["seconds"] = 0.1 * key
                job.options, job.repeats = (
                    {"idempotency_key": f"k{key}", "idempotency_scope": scope},
                    dice.randrange(1, 4),
                )
            case "short key":
                job.name = given["name"] = "short key"
                given["seconds"] = 0.5
                job.options = {"idempotency_key": "short", "idempotency_ttl": 15.0}
            case "chosen":
                job.name = f"chosen {dice.randrange(3)}"
                given["name"], job.repeats = job.name, 2
                job.options = {"task_id": job.name.replace(" ", "-")}
            case "slot":
                day = dice.choice(SLOT_DAYS)
                job.name = given["name"] = f"slot {day}"
                job.options, job.repeats = {"slot": ("report", day)}, 2
            case "conflict":
                job.options = {"idempotency_key": "same for all", "idempotency_scope": "ours"}
            case "urgent":
                job.options = {"priority": dice.randrange(1, 4)}
            case "batch":
                given["batch"] = dice.randrange(2, 5)
                if dice.random() < 0.5:
                    given["conflict"] = True
        if kind in ("plain", "flaky", "long") and dice.random() < 0.1:
            job.options["retry"] = RetryPolicy(base=dice.choice((0, 1)), max_attempts=dice.randrange(1, 4))
        return job

    def _troubles(self, dice):
        """Moments, kinds and lengths. They are over, one way or the other, when the world heals."""
        kinds = ["crash", "pause", "partition", "outage", "restart", "stop now", "jump", "jump back", "lose producer"]
        kinds = [kind for kind in kinds if dice.random() < 0.5]
        count = dice.randrange(8) if kinds else 0
        return sorted(
            (dice.uniform(0, self.heals_at), dice.choice(kinds), dice.random(), dice.uniform(0.1, 3) * self.lease)
            for _ in range(count)
        )

    def _operations(self, dice):
        kinds = ["cancel", "cancel", "cancel", "retry", "retry", "expire", "archive", "pause"]
        return sorted((dice.uniform(0, self.heals_at + 10), dice.choice(kinds)) for _ in range(dice.randrange(2, 15)))


def _maybe(dice, most):
    return dice.choice((0.0, dice.uniform(0, most)))
