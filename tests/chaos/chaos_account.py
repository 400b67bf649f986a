"""The account of a chaos run: every task, and every promise."""

import json
from collections import Counter, defaultdict
from datetime import datetime

from tenure import TaskStatus
from tenure.testing import check


def read(files):
    """The whole lines of append-only files; a killed writer may have left half a line."""
    for file in files:
        for line in file.read_text().split("\n")[:-1]:
            yield json.loads(line)


async def all_tasks(queue):
    tasks, cursor = [], None
    while True:
        page = await queue.list(limit=1000, cursor=cursor)
        tasks += page.tasks
        if (cursor := page.cursor) is None:
            return tasks


async def account(queue, acknowledged_files, execution_files):
    """Counts for the table, and the broken promises as sentences."""
    tasks = await all_tasks(queue)
    acknowledged = list(read(acknowledged_files))
    executions = [(line["id"], line["fence"]) for line in read(execution_files)]
    order = list(dict.fromkeys(line["id"] for line in acknowledged))
    broken = check(tasks, order, executions=executions, all_ended=True)
    broken += early(tasks, acknowledged)
    broken += shared(acknowledged, "key")
    broken += shared(acknowledged, "chosen")
    broken += await miscounted(queue, tasks)
    return figures(tasks, acknowledged, executions), broken


def early(tasks, acknowledged):
    due = {line["id"]: datetime.fromisoformat(line["due"]) for line in acknowledged if line["due"]}
    for task in tasks:
        first = next((event.at for event in task.history if event.what == "claimed"), None)
        if first is not None and task.id in due and first < due[task.id]:
            yield f"{task.id}: was claimed at {first}, before it was due at {due[task.id]}"


def shared(acknowledged, what):
    """Whoever submitted a key or a chosen id got the same task, and one submit at most created it."""
    ids, created = defaultdict(set), Counter()
    for line in acknowledged:
        if line[what] is not None:
            ids[line[what]].add(line["id"])
            created[line[what]] += line["created"]
    for name, found in ids.items():
        if len(found) != 1:
            yield f"{what} {name!r}: stands for {len(found)} tasks"
        if created[name] > 1:
            yield f"{what} {name!r}: was created {created[name]} times"


async def miscounted(queue, tasks):
    counted = {status: count for status, count in (await queue.counts()).items() if count}
    found = Counter(task.status for task in tasks)
    return [] if counted == found else [f"the store counts {counted}, but has {dict(found)}"]


def figures(tasks, acknowledged, executions):
    ends = Counter(task.status for task in tasks)
    events = Counter(event.what for task in tasks for event in task.history)
    return {
        "submits acknowledged": len(acknowledged),
        "tasks": len(tasks),
        **{f"  {status}": ends[status] for status in TaskStatus if ends[status]},
        "executions": len(executions),
        "claims": events["claimed"],
        "leases lapsed": events["lapsed"],
        "claims given back": events["released"],
        "attempts failed": events["failed"],
    }
