"""Looks at the tasks of a finished run and says which promises were broken.

It reads nothing but what everyone can read: the tasks with their histories, the ids whose
submit was acknowledged, and what the handlers saw.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tenure.task import Task
from tenure.testing.invariants import broken_invariants
from tenure.testing.journal import Journal, Started, Submitted
from tenure.testing.run import Circumstances


def check(
    tasks: Iterable[Task],
    acknowledged_ids: Collection[str] = (),
    *,
    executions: Iterable[tuple[str, int]] = (),
    all_ended: bool = False,
    one_task_per_key: bool = True,
) -> list[str]:
    """The broken promises of a run, each as a sentence; an empty list means that all were kept.

    `executions` are the starts of handlers, each as (task id, fence). `all_ended` asks that
    nothing is left to do. When `acknowledged_ids` is a list, it is taken for the order of
    submits, and ordering keys are checked against it; give a set when producers of one key ran
    at the same time. `one_task_per_key` is right for keys in their default scope.

    Who can tell more of a run, with a `Journal`, asks `broken_invariants`.
    """
    journal = Journal()
    in_order = isinstance(acknowledged_ids, Sequence)
    for place, task_id in enumerate(acknowledged_ids):
        number, answered = (2 * place, 2 * place + 1) if in_order else (0, 1)
        journal.submits.append(Submitted(number, "", answered=answered, task_id=task_id))
    journal.starts = [Started(0, task_id, "", fence) for task_id, fence in executions]
    given = Circumstances(all_ended=all_ended, keys_by_type=one_task_per_key)
    return [sentence for sentences in broken_invariants(tasks, journal, given).values() for sentence in sentences]
