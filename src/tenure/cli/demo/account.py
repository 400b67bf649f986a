"""The demo's account: what was promised, what the store says, and what the workers really ran."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tenure.queue import Queue
from tenure.task import Task, TaskStatus

ENDINGS = ("completed", "failed", "expired", "cancelled")


class Check(NamedTuple):
    """One statement about the run, and whether it holds."""

    holds: bool
    text: str


class Account(NamedTuple):
    """Everything that the table at the end shows."""

    rows: dict[str, dict[str, int]]
    checks: list[Check]

    @property
    def adds_up(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def total(self) -> dict[str, int]:
        """The sum of all rows."""
        return dict(sum((Counter(row) for row in self.rows.values()), Counter()))


class Run(NamedTuple):
    """An execution that a worker wrote down."""

    what: str
    task_id: str
    fence: int


async def take_account(queue: Queue, folder: Path, held_by_killed: list[str]) -> Account:
    """Compare the producer's ledger, the store's histories and the workers' logbooks."""
    tasks = await _all_tasks(queue)
    return Account(_rows(tasks), _checks(_read_ledger(folder), tasks, _read_runs(folder), held_by_killed))


def _read_ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def _read_runs(folder: Path) -> list[Run]:
    lines = [line.split() for book in folder.glob("runs-*.txt") for line in book.read_text().splitlines()]
    return [Run(what, task_id, int(fence)) for what, task_id, fence in lines]


async def _all_tasks(queue: Queue) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    cursor = None
    while True:
        page = await queue.list(limit=1000, cursor=cursor)
        tasks |= {task.id: task for task in page.tasks}
        if (cursor := page.cursor) is None:
            return tasks


def _rows(tasks: dict[str, Task]) -> dict[str, dict[str, int]]:
    rows: dict[str, dict[str, int]] = {}
    for task in sorted(tasks.values(), key=lambda task: task.type):
        row = rows.setdefault(task.type, dict.fromkeys(("submitted", *ENDINGS, "open", "claims", "lapsed"), 0))
        row["submitted"] += 1
        row[task.status if task.status in ENDINGS else "open"] += 1
        row["claims"] += _events(task, "claimed")
        row["lapsed"] += _events(task, "lapsed")
    return rows


def _checks(ledger: list[dict[str, Any]], tasks: dict[str, Task], runs: list[Run], held: list[str]) -> list[Check]:
    promised = {entry["id"]: entry for entry in ledger}
    repeats = sum(not entry["created"] for entry in ledger)
    keyed = [task for task in tasks.values() if task.idempotency_key is not None]
    ended = Counter(task.status.value for task in tasks.values())
    right = sum(tasks[id_].status == entry["fate"] for id_, entry in promised.items() if id_ in tasks)
    completions = [_events(task, "completed") for task in tasks.values()]
    finished = Counter(run.task_id for run in runs if run.what == "finished")
    again = {task_id for task_id, times in finished.items() if times > 1}
    started = Counter((run.task_id, run.fence) for run in runs if run.what == "started")
    claims = {(task.id, event.fence) for task in tasks.values() for event in task.history if event.what == "claimed"}
    never = {task.id for task in tasks.values() if task.status in (TaskStatus.Expired, TaskStatus.Cancelled)}
    recovered = [id_ for id_ in held if _events(tasks[id_], "lapsed") and tasks[id_].status.ended]
    return [
        Check(
            promised.keys() == tasks.keys(),
            f"nothing lost: {len(promised):,} tasks acknowledged, {len(promised.keys() & tasks.keys()):,} of them in the store, "
            f"{len(tasks.keys() - promised.keys())} unknown",
        ),
        Check(
            len(tasks) == sum(ended[status] for status in ENDINGS),
            f"all ended: {len(tasks):,} submitted = " + " + ".join(f"{ended[status]:,} {status}" for status in ENDINGS),
        ),
        Check(right == len(promised), f"as expected: {right:,} of {len(promised):,} ended the way their kind must"),
        Check(
            max(completions, default=0) == 1 and sum(completions) == ended["completed"] == len(finished),
            f"nothing completed twice: {sum(completions):,} completions in the histories of {ended['completed']:,} tasks",
        ),
        Check(
            all(_events(tasks[task_id], "lapsed") for task_id in again if task_id in tasks),
            f"finished again only by need: {len(again)} tasks, whose worker was killed between the work and its record",
        ),
        Check(
            repeats == len(keyed) == len({task.idempotency_key for task in keyed}),
            f"one task per key: {len(keyed) + repeats:,} submits with {len({task.idempotency_key for task in keyed}):,} "
            f"idempotency keys made {len(keyed):,} tasks",
        ),
        Check(
            max(started.values(), default=0) == 1 and started.keys() <= claims,
            f"one owner at a time: {len(started):,} handler runs, each under a claim of its own",
        ),
        Check(
            not never & {run.task_id for run in runs},
            f"no run too late: none of the {len(never):,} expired or cancelled tasks was ever started",
        ),
        Check(_in_order(tasks), "in order: the tasks of each account ran one at a time, in the order of submit"),
        Check(
            bool(held) and len(recovered) == len(held),
            f"recovered: {len(held)} tasks were running in the killed worker, {len(recovered)} lapsed and went on elsewhere",
        ),
    ]


def _in_order(tasks: dict[str, Task]) -> bool:
    """Whether each task of a key started after the one before it had ended."""
    last: dict[str, Task] = {}
    for task in sorted(tasks.values(), key=lambda task: task.id):
        if task.ordering_key is None:
            continue
        before, last[task.ordering_key] = last.get(task.ordering_key), task
        started = next(event.at for event in task.history if event.what == "claimed")
        if before is not None and (before.ended_at is None or started < before.ended_at):
            return False
    return True


def _events(task: Task, what: str) -> int:
    return sum(event.what == what for event in task.history)
