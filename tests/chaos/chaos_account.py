"""The account of a chaos run: every task, and every promise."""

import json
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise

from tenure import TaskStatus
from tenure.testing.invariants import broken_invariants
from tenure.testing.journal import Journal, Started, Submitted
from tenure.testing.run import NO_TIME, Circumstances


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


async def account(queue, acknowledged_files, execution_files, doubt=NO_TIME):
    """Counts for the table, and the broken promises as sentences.

    `doubt` is how far the clients' readings of the store's time may be apart.
    """
    tasks = await all_tasks(queue)
    acknowledged = list(read(acknowledged_files))
    executions = list(read(execution_files))
    order = list(dict.fromkeys(line["id"] for line in acknowledged))
    begun = [line for line in executions if line["what"] == "begun"]
    journal = Journal()
    journal.submits = [Submitted(2 * place, "", answered=2 * place + 1, task_id=id_) for place, id_ in enumerate(order)]
    journal.starts = [Started(0, line["id"], "", line["fence"]) for line in begun]
    given = Circumstances(all_ended=True, set_back=doubt)
    broken = [sentence for found in broken_invariants(tasks, journal, given).values() for sentence in found]
    broken += out_of_order(tasks, order, executions)
    broken += early(tasks, acknowledged)
    broken += shared(acknowledged, "key")
    broken += shared(acknowledged, "chosen")
    broken += await miscounted(queue, tasks)
    return figures(tasks, acknowledged, begun), broken


def out_of_order(tasks, order, executions):
    """By the one clock of the machine, which nobody's store has to be asked for.

    A handler whose task was completed by it had returned before the next of its key began.
    """
    began, returned = {}, {}
    for line in executions:
        times = began if line["what"] == "begun" else returned
        times[line["id"], line["fence"]] = line["at"]
    first = {}
    for (task_id, _), at in began.items():
        first[task_id] = min(first.get(task_id, at), at)
    place = {task_id: number for number, task_id in enumerate(order)}
    keys = defaultdict(list)
    for task in tasks:
        if task.ordering_key is not None and task.id in place:
            keys[task.ordering_key].append(task)
    for key, members in keys.items():
        for one, other in pairwise(sorted(members, key=lambda task: place[task.id])):
            end = returned.get((one.id, one.fence)) if one.status is TaskStatus.Completed else None
            if end is not None and first.get(other.id, end) < end:
                yield f"{other.id}: began {end - first[other.id]:.3f} s before {one.id} of key {key!r} had returned"


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
        "tasks acknowledged": len({line["id"] for line in acknowledged}),
        "tasks": len(tasks),
        **{f"  {status}": ends[status] for status in TaskStatus if ends[status]},
        "executions": len(executions),
        "claims": events["claimed"],
        "leases lapsed": events["lapsed"],
        "claims given back": events["released"],
        "attempts failed": events["failed"],
    }
