"""One tree of errors, each with what happened and what to do."""

import copy
import math
import pickle
import traceback
from datetime import timedelta

import pytest

from tenure import errors
from tenure.errors import (
    CannotArchive,
    CannotCancel,
    CannotClaim,
    CannotExpire,
    CannotRetry,
    ConcurrentChange,
    DamagedRecord,
    IdempotencyConflict,
    InvalidHandler,
    InvalidInput,
    InvalidURL,
    LeaseLost,
    MissingExtra,
    PermanentError,
    RescheduleError,
    ResultTimeout,
    StoreClosed,
    StoreFull,
    StoreTooNew,
    StoreUnavailable,
    StoreUnusable,
    TaskNotFound,
    TaskUnsuccessful,
    TenureError,
    TransitionRefused,
    Unrecoverable,
    one_of,
)

from .builders import pending


@pytest.mark.parametrize(
    ("error", "text", "attributes"),
    [
        (
            MissingExtra("A postgresql store", "postgres"),
            "A postgresql store needs an extra package. Run: pip install 'tenure-queue[postgres]'",
            {"extra": "postgres"},
        ),
        (
            TaskNotFound("t1"),
            "No task 't1' in this store. It was never submitted here, or retention has pruned it.",
            {"task_id": "t1"},
        ),
        (
            TransitionRefused("t1", "failed"),
            "Cannot change task t1: it is failed.",
            {"task_id": "t1", "status": "failed"},
        ),
        (
            CannotClaim("t1", "failed"),
            "Cannot claim task t1: it is failed. Only pending tasks that are due can be claimed.",
            {"task_id": "t1", "status": "failed"},
        ),
        (
            CannotExpire("t1", "running"),
            (
                "Cannot expire task t1: it is running. "
                "Only pending tasks expire; a running task is never touched by its deadline."
            ),
            {"task_id": "t1", "status": "running"},
        ),
        (
            CannotCancel("t1", "completed"),
            "Cannot cancel task t1: it is completed. Only pending and running tasks can be cancelled.",
            {"task_id": "t1", "status": "completed"},
        ),
        (
            CannotRetry("t1", "expired"),
            (
                "Cannot retry task t1: it is expired. "
                "Only failed and cancelled tasks can be retried; submit a new task instead."
            ),
            {"task_id": "t1", "status": "expired"},
        ),
        (
            CannotArchive("t1", "running"),
            (
                "Cannot archive task t1: it is running. "
                "Only ended tasks can be archived; cancel it first or wait for its end."
            ),
            {"task_id": "t1", "status": "running"},
        ),
        (
            LeaseLost("t1", 3, "running", 4),
            (
                "The claim with fence 3 on task t1 is over: the task is running at fence 4. "
                "Nothing was changed. Stop working on it; whoever holds the newer claim carries on."
            ),
            {"task_id": "t1", "fence": 3, "status": "running"},
        ),
        (
            IdempotencyConflict("charge-ORD-123", "t1", "charge_customer"),
            (
                "key 'charge-ORD-123' in scope 'charge_customer' already belongs to task t1 with another input. "
                "Use a new key for new work, or submit the same input to get that task back."
            ),
            {"key": "charge-ORD-123", "task_id": "t1", "scope": "charge_customer", "difference": "input"},
        ),
        (
            ResultTimeout("t1", "running", 2.5),
            "Task t1 was still running after 2.5 s. It goes on; ask for its result again later.",
            {"task_id": "t1", "status": "running"},
        ),
        (
            TaskUnsuccessful("t1", "failed", "boom"),
            "Task t1 ended as failed: boom. It has no result.",
            {"task_id": "t1", "status": "failed"},
        ),
        (TaskUnsuccessful("t1", "expired", None), "Task t1 ended as expired. It has no result.", {}),
        (
            DamagedRecord("t1", "truncated"),
            (
                "The stored record of task t1 cannot be read (truncated). "
                "It is kept as it is and set aside, so that other tasks go on."
            ),
            {"task_id": "t1"},
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_says_what_happened_and_what_to_do(error, text, attributes):
    assert str(error) == text
    assert {name: getattr(error, name) for name in attributes} == attributes


def test_a_change_that_others_always_beat_names_the_task():
    error = ConcurrentChange("t1")
    assert "t1" in str(error)
    assert error.task_id == "t1"


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (InvalidInput, (ValueError,)),
        (InvalidURL, (InvalidInput,)),
        (InvalidHandler, (TypeError,)),
        (MissingExtra, (ImportError,)),
        (TaskNotFound, (LookupError,)),
        (CannotClaim, (TransitionRefused,)),
        (CannotExpire, (TransitionRefused,)),
        (CannotCancel, (TransitionRefused,)),
        (CannotRetry, (TransitionRefused,)),
        (CannotArchive, (TransitionRefused,)),
        (ResultTimeout, (TimeoutError,)),
        (StoreUnavailable, (errors.StoreError, ConnectionError)),
        (StoreFull, (StoreUnavailable,)),
        (StoreClosed, (errors.StoreError,)),
        (StoreUnusable, (errors.StoreError,)),
        (StoreTooNew, (StoreUnusable,)),
        (DamagedRecord, (errors.StoreError,)),
    ],
)
def test_one_tree_that_also_speaks_pythons_own_names(error, parents):
    assert issubclass(error, (TenureError, *parents))
    for parent in parents:
        assert issubclass(error, parent)


def test_what_a_handler_raises_is_no_error_of_tenure():
    assert Unrecoverable is PermanentError
    assert not issubclass(PermanentError, TenureError)
    assert not issubclass(RescheduleError, TenureError)


def test_a_reschedule_names_its_delay():
    error = RescheduleError(delay_seconds=60, extend_expiration_seconds=1.5)
    assert (error.delay_seconds, error.extend_expiration_seconds) == (60, 1.5)
    assert str(error) == "run again in 60 s"


def test_a_reschedule_takes_durations_like_every_other_call():
    error = RescheduleError(delay_seconds=timedelta(minutes=1), extend_expiration_seconds=timedelta(seconds=0.5))
    assert (error.delay_seconds, error.extend_expiration_seconds) == (60, 0.5)


def test_a_reschedule_is_at_once_unless_told():
    error = RescheduleError()
    assert (error.delay_seconds, error.extend_expiration_seconds) == (0, 0)


@pytest.mark.parametrize("field", ["delay_seconds", "extend_expiration_seconds"])
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, math.inf, True, "60", None, 10**400, timedelta(-1)])
def test_a_reschedule_refuses_what_is_no_time(field, value):
    with pytest.raises(InvalidInput) as refusal:
        RescheduleError(**{field: value})
    assert f"{field}={value!r}" in str(refusal.value)


def test_an_unknown_word_is_answered_with_the_known_ones():
    assert one_of("fruit", "stone", ["apple", "pear"]) == "'stone' is no fruit. Known: apple, pear."


def test_a_batch_that_was_stored_in_part_names_what_is_there():
    error = errors.PartlySubmitted([pending(id="t1")], 3, "the second store is away.")
    assert str(error).startswith("Of a batch of 3 tasks, 1 were stored for certain")
    assert [task.id for task in error.created] == ["t1"]
    assert isinstance(error, errors.StoreUnavailable)


MADE_FROM = {
    errors.MissingExtra: ("A postgresql store", "postgres"),
    errors.TaskNotFound: ("t1",),
    errors.TransitionRefused: ("t1", "failed"),
    errors.LeaseLost: ("t1", 3, "running", 4),
    errors.IdempotencyConflict: ("key", "t1", "scope", "type"),
    errors.ConcurrentChange: ("t1",),
    errors.ResultTimeout: ("t1", "running", 2.5),
    errors.TaskUnsuccessful: ("t1", "failed", "boom"),
    errors.PartlySubmitted: ([pending(id="t1")], 3, "the second store is away."),
    errors.DamagedRecord: ("t1", "truncated", "reservation"),
    errors.RescheduleError: (60, 1.5),
}
"""What the classes that make their own message are made from; all others are given theirs."""


def example(kind):
    values = next((MADE_FROM[each] for each in kind.__mro__ if each in MADE_FROM), ("What happened.",))
    return kind(*values)


EVERY_ERROR = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", EVERY_ERROR)
@pytest.mark.parametrize("travel", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"])
def test_an_error_comes_back_from_another_process_as_it_was(kind, travel):
    error = example(kind)
    error.add_note("seen by the night shift")
    back = travel(error)
    assert type(back) is kind
    assert back is not error
    assert traceback.format_exception_only(back) == traceback.format_exception_only(error)
    assert (back.args, vars(back)) == (error.args, vars(error))
    assert getattr(back, "msg", None) == getattr(error, "msg", None)


class TooManyLetters(errors.InvalidInput):
    """An error of an application's own."""

    def __init__(self, count, *, limit):
        super().__init__(f"{count} letters are more than {limit}.")
        self.count, self.limit = count, limit


def test_an_error_of_an_application_comes_back_too():
    back = pickle.loads(pickle.dumps(TooManyLetters(3, limit=2)))
    assert (str(back), back.count, back.limit) == ("3 letters are more than 2.", 3, 2)
