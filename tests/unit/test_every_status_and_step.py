"""Each step from each status: where it leads, or how it is refused."""

import pytest

from tenure import errors, lifecycle
from tenure.lifecycle import Failure
from tenure.task import TaskStatus

from .builders import IN_STATUS, OUTPUT, POLICY, at, changed, claimed

LATER = at(100)

STEPS = {
    "claim": lambda task: claimed(task, LATER),
    "complete": lambda task: lifecycle.complete(task, task.fence, OUTPUT, LATER),
    "fail": lambda task: lifecycle.fail(task, task.fence, Failure("boom"), POLICY, LATER, 0.5),
    "fail for good": lambda task: lifecycle.fail(task, task.fence, Failure("boom", permanent=True), POLICY, LATER, 0.5),
    "lapse": lambda task: lifecycle.lapse(task, LATER),
    "release": lambda task: lifecycle.release(task, task.fence, LATER, "shut down"),
    "reschedule": lambda task: lifecycle.reschedule(task, task.fence, LATER, 60),
    "stop": lambda task: lifecycle.stop(task, task.fence, LATER),
    "expire": lambda task: lifecycle.expire(task, LATER),
    "cancel": lambda task: lifecycle.cancel(task, LATER),
    "retry": lambda task: lifecycle.retry(task, LATER),
    "archive": lambda task: lifecycle.archive(task, LATER),
}

TABLE = """
                | pending           | running      | completed         | failed            | cancelled         | expired           | archived
  claim         | running           | CannotClaim  | CannotClaim       | CannotClaim       | CannotClaim       | CannotClaim       | CannotClaim
  complete      | LeaseLost         | completed    | same              | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost
  fail          | LeaseLost         | pending      | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost
  fail for good | LeaseLost         | failed       | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost
  lapse         | TransitionRefused | pending      | TransitionRefused | TransitionRefused | TransitionRefused | TransitionRefused | TransitionRefused
  release       | LeaseLost         | pending      | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost
  reschedule    | LeaseLost         | pending      | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost         | LeaseLost
  stop          | LeaseLost         | cancelled    | LeaseLost         | LeaseLost         | same              | LeaseLost         | LeaseLost
  expire        | expired           | CannotExpire | CannotExpire      | CannotExpire      | CannotExpire      | CannotExpire      | CannotExpire
  cancel        | cancelled         | running      | CannotCancel      | CannotCancel      | same              | CannotCancel      | CannotCancel
  retry         | CannotRetry       | CannotRetry  | CannotRetry       | pending           | pending           | CannotRetry       | CannotRetry
  archive       | CannotArchive     | CannotArchive| archived          | archived          | archived          | archived          | same
"""


def rows():
    head, *lines = (line.split("|") for line in TABLE.strip("\n").splitlines())
    for name, *cells in lines:
        for status, cell in zip(head[1:], cells, strict=True):
            yield name.strip(), TaskStatus(status.strip()), cell.strip()


@pytest.mark.parametrize(("step", "status", "outcome"), list(rows()))
def test_a_step_leads_where_the_table_says_or_is_refused(step, status, outcome):
    task = IN_STATUS[status]()
    assert task.status is status
    if outcome == "same":
        assert STEPS[step](task) is task
    elif outcome in iter(TaskStatus):
        after = STEPS[step](task)
        assert after.status == outcome
        assert changed(task, after)
        assert after.updated_at == LATER
    else:
        kind = getattr(errors, outcome)
        with pytest.raises(kind) as refusal:
            STEPS[step](task)
        assert type(refusal.value) is kind
        assert refusal.value.task_id == task.id
        assert refusal.value.status == status
        assert f"{task.id}" in str(refusal.value)
        assert f"is {status}" in str(refusal.value)


def test_the_table_covers_every_status_and_step():
    assert {(step, status) for step, status, _ in rows()} == {(step, status) for step in STEPS for status in TaskStatus}


WORKERS_STEPS = ("complete", "fail", "release", "reschedule", "stop")


@pytest.mark.parametrize("step", WORKERS_STEPS)
@pytest.mark.parametrize("off", [-1, 1])
def test_no_write_with_another_fence_takes_effect(step, off):
    task = IN_STATUS[TaskStatus.Running]()
    steps = {
        "complete": lambda fence: lifecycle.complete(task, fence, OUTPUT, LATER),
        "fail": lambda fence: lifecycle.fail(task, fence, Failure("boom"), POLICY, LATER, 0.5),
        "release": lambda fence: lifecycle.release(task, fence, LATER, "shut down"),
        "reschedule": lambda fence: lifecycle.reschedule(task, fence, LATER, 60),
        "stop": lambda fence: lifecycle.stop(task, fence, LATER),
    }
    with pytest.raises(errors.LeaseLost) as lost:
        steps[step](task.fence + off)
    assert lost.value.fence == task.fence + off
    assert f"at fence {task.fence}" in str(lost.value)


@pytest.mark.parametrize("status", list(TaskStatus))
def test_only_a_running_task_of_the_same_fence_is_renewed(status):
    task = IN_STATUS[status]()
    if status is TaskStatus.Running:
        renewed = lifecycle.renew(task, task.fence, LATER)
        assert renewed.lease_expires_at == LATER
        assert renewed.version == task.version
        assert renewed.history == task.history
    else:
        with pytest.raises(errors.LeaseLost):
            lifecycle.renew(task, task.fence, LATER)


def test_a_renewal_with_another_fence_is_refused():
    task = IN_STATUS[TaskStatus.Running]()
    with pytest.raises(errors.LeaseLost):
        lifecycle.renew(task, task.fence + 1, LATER)


def test_a_renewal_never_makes_a_lease_shorter():
    task = IN_STATUS[TaskStatus.Running]()
    assert lifecycle.renew(task, task.fence, at(1)).lease_expires_at == task.lease_expires_at
