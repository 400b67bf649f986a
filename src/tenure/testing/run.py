"""A finished run, as the invariants look at it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from tenure.retry import RetryPolicy
from tenure.task import Task
from tenure.testing.journal import Finished, Journal, Started, Submitted

NO_TIME = timedelta(0)


class Circumstances(NamedTuple):
    """What a checker has to know about a run beside its journal."""

    all_ended: bool = False
    """Nothing may be left to do."""
    healed_at: datetime | None = None
    """When the last fault was over."""
    start_within: timedelta | None = None
    """How soon after that a runnable task starts: lease, poll, and what workers may still have been waiting for."""
    policy: RetryPolicy | None = None
    """What the workers retry by."""
    set_back: timedelta = NO_TIME
    """By how much the store's clock was set back in all. Times are compared with so much doubt."""
    set_forward: timedelta = NO_TIME
    """By how much it was set forward: then a lease ends before its worker can know."""
    on_the_way: timedelta = NO_TIME
    """How long a call may be on its way: so much older than a write is the time it was made with."""
    keys_by_type: bool = True
    """Whether tasks of one type with one idempotency key are one task, as in the default scope."""


class Run:
    """The tasks at the end, and the journal, put in order for looking things up."""

    def __init__(self, tasks: Iterable[Task], journal: Journal, circumstances: Circumstances) -> None:
        self.tasks = list(tasks)
        self.journal = journal
        self.given = circumstances
        self.known = {task.id: task for task in self.tasks}

    @cached_property
    def names(self) -> dict[str, str]:
        """What each task was called by its producer."""
        named = {task.id: task.input for task in self.tasks}
        return {id_: input_["name"] for id_, input_ in named.items() if isinstance(input_, dict) and "name" in input_}

    @cached_property
    def answered(self) -> list[Submitted]:
        """Submits whose answer was a task."""
        return [submit for submit in self.journal.submits if submit.task_id is not None]

    @cached_property
    def created(self) -> dict[str, Submitted]:
        """By task, the submit that was answered that it has created it."""
        return {submit.task_id: submit for submit in self.answered if submit.created and submit.task_id}

    @cached_property
    def most(self) -> dict[str, int]:
        """By task, the executions that its producer allowed."""
        return {submit.task_id: submit.most for submit in self.answered if submit.most and submit.task_id}

    @cached_property
    def starts(self) -> dict[str, list[Started]]:
        """By task, when handlers began."""
        found: dict[str, list[Started]] = defaultdict(list)
        for start in self.journal.starts:
            found[start.task_id].append(start)
        return found

    @cached_property
    def finishes(self) -> dict[tuple[str, int], Finished]:
        """By task and fence, how the handler ended."""
        return {(finish.task_id, finish.fence): finish for finish in self.journal.finishes}

    def operated(self, task_id: str, what: str) -> int:
        """How many calls of an operator may have done this to the task."""
        return sum(
            operation.task_id == task_id and operation.what == what and not operation.refused
            for operation in self.journal.operations
        )
