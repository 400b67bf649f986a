"""Rules 3, 6-8, 28: from a producer's words to the first version of a task."""

from datetime import UTC, date, datetime, timedelta, timezone

import msgspec
import pytest

from tenure import InvalidInput, ids
from tenure.idempotency import Kind
from tenure.retry import RetryPolicy
from tenure.submission import KNOWN_OPTIONS, Form, Submission, build, check_batch, with_own
from tenure.task import FORMAT, TaskStatus
from tenure.times import FOREVER

from .builders import NOW, at

NAIVE = datetime(2026, 1, 28, 18)  # noqa: DTZ001 - that is the point
IN_BERLIN = datetime(2026, 1, 28, 19, tzinfo=timezone(timedelta(hours=1)))


def submission(**options) -> Submission:
    return build("greet", {"name": "Ada"}, options, NOW, 1000)


def submitted(**options):
    return submission(**options).task


def test_a_task_is_pending_due_now_and_never_expires_unless_told():
    task = submitted()
    assert (task.type, task.queue, task.status, task.input) == ("greet", "default", TaskStatus.Pending, {"name": "Ada"})
    assert (task.created_at, task.updated_at, task.available_at, task.expires_at) == (NOW, NOW, NOW, None)
    assert (task.attempts, task.fence, task.version, task.format) == (0, 0, 1, FORMAT)
    assert task.created
    assert submission().reservation is None


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({"schedule_at": at(60)}, at(60)),
        ({"run_at": at(60)}, at(60)),
        ({"scheduled_for": at(60)}, at(60)),
        ({"schedule_at": at(-60)}, at(-60)),
        ({"delay": 60}, at(60)),
        ({"delay": 0.5}, at(0.5)),
        ({"delay": 0}, NOW),
        ({"delay": timedelta(minutes=1)}, at(60)),
        ({"schedule_at": None, "run_at": None, "scheduled_for": None, "delay": None}, NOW),
        ({"schedule_at": NAIVE}, at(3600)),
        ({"schedule_at": IN_BERLIN}, at(3600)),
    ],
)
def test_when_a_task_becomes_due(options, due):
    task = submitted(**options)
    assert task.available_at == due
    assert task.available_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("options", "deadline"),
    [
        ({"expires_at": at(60)}, at(60)),
        ({"expires_at": NAIVE}, at(3600)),
        ({"expires_at": IN_BERLIN}, at(3600)),
        ({"ttl": 60}, at(60)),
        ({"ttl": timedelta(minutes=1)}, at(60)),
        ({"ttl_seconds": 60}, at(60)),
        ({"ttl": 0}, NOW),
        ({"ttl": 60, "delay": 3600}, at(60)),
        ({"ttl": None, "ttl_seconds": None, "expires_at": None}, None),
        ({"ttl": 60, "expires_at": None}, at(60)),
    ],
)
def test_when_a_task_expires(options, deadline):
    task = submitted(**options)
    assert task.expires_at == deadline
    assert deadline is None or task.expires_at.tzinfo is UTC


def test_submitted_with_no_time_left_it_is_already_expired():
    assert submitted(ttl=0).is_expired_at(NOW)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 0),
        ({"max_attempts": 5}, 5),
        ({"max_attempts": 0}, 0),
        ({"max_attempts": None}, 0),
        ({"max_retries": 0}, 1),
        ({"max_retries": 4}, 5),
        ({"max_retries": None, "max_attempts": 3}, 3),
    ],
)
def test_so_many_retries_are_one_execution_more(options, limit):
    assert submitted(**options).max_attempts == limit


def test_the_other_options_are_kept():
    task = submitted(
        queue="mail",
        priority=-3,
        ordering_key="user-42",
        tags=["a", "b", "a"],
        retry=RetryPolicy.patient(),
        timeout=timedelta(minutes=1),
        max_reschedules=0,
        headers={"traceparent": "00-1", "": ""},
    )
    assert (task.queue, task.priority, task.ordering_key, task.tags) == ("mail", -3, "user-42", ("a", "b"))
    assert (task.retry, task.timeout, task.max_reschedules) == (RetryPolicy.patient(), 60.0, 0)
    assert task.headers == {"traceparent": "00-1", "": ""}


def test_every_option_may_be_none_or_left_out():
    nothing = dict.fromkeys(KNOWN_OPTIONS - {"queue", "idempotency_scope", "idempotency_ttl_days"})
    task = submitted(**nothing)
    assert msgspec.structs.replace(task, id="") == msgspec.structs.replace(submitted(), id="")


COMMON = {
    "ttl": 60,
    "delay": 5,
    "max_attempts": 3,
    "idempotency_ttl": 60,
    "queue": "mail",
    "headers": {"a": "1", "b": "1"},
}


@pytest.mark.parametrize(
    ("own", "field", "value"),
    [
        ({"expires_at": at(7)}, "expires_at", at(7)),
        ({"ttl_seconds": 7}, "expires_at", at(7)),
        ({"expires_at": None}, "expires_at", None),
        ({"run_at": at(7)}, "available_at", at(7)),
        ({"scheduled_for": None}, "available_at", NOW),
        ({"max_retries": 7}, "max_attempts", 8),
        ({"queue": "slow"}, "queue", "slow"),
        ({"headers": {"b": "2"}}, "headers", {"a": "1", "b": "2"}),
        ({"headers": None}, "headers", {}),
        ({"priority": 5}, "headers", {"a": "1", "b": "1"}),
    ],
)
def test_a_tasks_own_word_stands_before_every_common_word_for_the_same_thing(own, field, value):
    alone, task = submitted(**COMMON), submitted(**with_own(COMMON, own))
    assert getattr(task, field) == value
    for other in {"expires_at", "available_at", "max_attempts", "queue"} - {field}:
        assert getattr(task, other) == getattr(alone, other)


def test_a_tasks_own_word_for_the_life_of_its_key_stands_before_the_common_one():
    options = with_own({**COMMON, "idempotency_key": "k"}, {"idempotency_ttl_days": 1})
    assert submission(**options).reservation.expires_at == NOW + timedelta(days=1)


def test_a_producer_may_choose_the_id():
    chosen = submission(task_id="order-7 🐢")
    assert (chosen.task.id, chosen.chosen_id) == ("order-7 🐢", True)
    assert chosen.task.remember_until == NOW + timedelta(days=30)
    assert not submission().chosen_id
    assert submission().task.remember_until is None


@pytest.mark.parametrize(
    ("options", "until"),
    [
        ({}, NOW + timedelta(days=30)),
        ({"idempotency_ttl_days": 1}, NOW + timedelta(days=1)),
        ({"idempotency_ttl_days": 0.5}, NOW + timedelta(hours=12)),
        ({"idempotency_ttl_days": None}, None),
        ({"idempotency_ttl": 60}, at(60)),
        ({"idempotency_ttl": timedelta(minutes=1)}, at(60)),
        ({"idempotency_ttl": 0}, NOW),
        ({"idempotency_ttl": None}, None),
    ],
)
def test_how_long_a_key_lives(options, until):
    keyed = submission(idempotency_key="k", **options)
    assert keyed.reservation.expires_at == until
    assert keyed.task.remember_until == (until or FOREVER)


def test_a_keys_record_knows_the_task():
    keyed = submission(idempotency_key="charge-7", delay=60)
    record = keyed.reservation
    assert (record.kind, record.scope, record.key) == (Kind.TaskType, "greet", "charge-7")
    assert (record.task_id, record.task_type, record.created_at) == (keyed.task.id, "greet", NOW)
    assert (record.state, record.expires_at) == ("ready", NOW + timedelta(days=30))
    assert record.input_hash.startswith("sha256:")
    assert keyed.task.idempotency_key == "charge-7"
    assert not keyed.chosen_id


def test_a_chosen_id_and_a_key_go_together():
    both = submission(task_id="t7", idempotency_key="k")
    assert (both.reservation.task_id, both.chosen_id) == ("t7", True)


@pytest.mark.parametrize(
    ("slot", "key"),
    [
        (("summary#user-42", date(2026, 1, 28)), "summary#user-42#2026-01-28"),
        (("summary#user-42", "2026-01-28"), "summary#user-42#2026-01-28"),
        (("summary", NAIVE), "summary#2026-01-28T18:00:00.000000Z"),
        (("summary", IN_BERLIN), "summary#2026-01-28T18:00:00.000000Z"),
    ],
)
def test_a_slot_reserves_one_job_whatever_its_input(slot, key):
    slotted = submission(slot=slot)
    record = slotted.reservation
    assert (record.kind, record.scope, record.key, record.input_hash) == (Kind.Slot, "slot", key, None)
    assert slotted.task.idempotency_key is None


def test_a_slot_lives_from_when_its_job_is_due():
    slotted = submission(slot=("summary", "2026-03-01"), schedule_at=at(86_400), idempotency_ttl=60)
    assert slotted.reservation.expires_at == at(86_460)
    overdue = submission(slot=("summary", "2026-03-01"), schedule_at=at(-86_400), idempotency_ttl=60)
    assert overdue.reservation.expires_at == at(60)


def test_one_form_serves_a_whole_batch():
    form = Form.read({"queue": "mail", "delay": 60}, NOW)
    first, second = (form.fill("greet", number, 1000).task for number in (1, 2))
    assert (first.input, second.input) == (1, 2)
    assert first.id < second.id
    assert (first.queue, first.available_at) == (second.queue, second.available_at) == ("mail", at(60))


def test_a_batch_that_is_too_large_for_one_write_is_refused_with_the_sum_and_the_limit(monkeypatch):
    monkeypatch.setattr("tenure.submission.BATCH_SIZE_LIMIT", 30)
    batch = [build("greet", "x" * 8, {}, NOW, 1000) for _ in range(4)]
    check_batch(batch[:3])
    with pytest.raises(InvalidInput, match="4 tasks have 40 bytes of JSON together; one batch takes up to 30"):
        check_batch(batch)


def test_json_that_was_made_before_is_taken_as_it_is():
    assert build("greet", msgspec.Raw(b'{"a": 1}'), {}, NOW, 1000).task.input == {"a": 1}


@pytest.mark.parametrize("options", [{"idempotency_key": "k"}, {"slot": ("daily", "2026-01-28")}])
def test_a_new_id_shares_the_bucket_of_its_key_so_that_both_are_kept_together(options):
    made = submission(**options)
    assert made.reservation.task_id == made.task.id
    assert ids.bucket_of(made.task.id) == ids.bucket(made.reservation.identity)


@pytest.mark.parametrize("options", [{}, {"idempotency_key": "k"}])
def test_a_new_id_shares_the_bucket_of_its_ordering_key_first(options):
    made = submission(ordering_key="user-42", **options)
    assert ids.bucket_of(made.task.id) == ids.bucket("user-42")


def test_a_submission_under_another_id_takes_its_key_with_it():
    first = submission(idempotency_key="k")
    other = first.under("t9")
    assert (other.task.id, other.reservation.task_id, other.reservation.key) == ("t9", "t9", "k")
    assert submission().under("t9").reservation is None
