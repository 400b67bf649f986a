"""Rule 41: why a task is not running, in a sentence."""

from datetime import timedelta

import pytest

from tenure import lifecycle
from tenure.explain import how_it_ended, human, why_not_running
from tenure.task import TaskStatus

from .builders import (
    IN_STATUS,
    LEASE,
    NOW,
    archived,
    at,
    cancelled,
    claimed,
    completed,
    expired,
    failed,
    failed_once,
    pending,
    replace,
    running,
)

SCHEDULED = pending(available_at=at(180))
BACKING_OFF = failed_once(claimed(failed_once(running(), NOW), at(10)), at(10))
KEYED = pending(ordering_key="user-42")


@pytest.mark.parametrize(
    ("task", "now", "words", "sentence"),
    [
        (SCHEDULED, NOW, {}, "due in 3m"),
        (SCHEDULED, at(179.75), {}, "due in 0.25s"),
        (SCHEDULED, at(180), {}, "due; the next free worker takes it"),
        (failed_once(running(), NOW), at(9), {}, "backing off after 1 failure, due in 1s (boom)"),
        (BACKING_OFF, at(10), {}, "backing off after 2 failures, due in 20s (boom)"),
        (running(), NOW, {}, "leased by w1 until 2026-01-28T17:00:30.000000Z"),
        (
            lifecycle.cancel(running(), NOW),
            NOW,
            {},
            "asked to stop; leased by w1 until 2026-01-28T17:00:30.000000Z",
        ),
        (
            running(),
            NOW + LEASE,
            {},
            "its lease, held by w1, lapsed at 2026-01-28T17:00:30.000000Z; about to be recovered",
        ),
        (expired(), at(9), {}, "expired at 2026-01-28T17:00:01.000000Z"),
        (pending(expires_at=at(5)), at(5), {}, "expired at 2026-01-28T17:00:05.000000Z; about to be marked"),
        (cancelled(), at(9), {}, "cancelled by ada at 2026-01-28T17:00:02.000000Z: not needed"),
        (lifecycle.cancel(pending(), at(1)), at(9), {}, "cancelled at 2026-01-28T17:00:01.000000Z"),
        (failed(), at(9), {}, "failed for good at 2026-01-28T17:00:01.000000Z after 1 attempt: boom"),
        (completed(), at(9), {}, "completed at 2026-01-28T17:00:01.000000Z"),
        (
            archived(),
            at(9),
            {},
            "archived at 2026-01-28T17:00:02.000000Z; it had ended at 2026-01-28T17:00:01.000000Z",
        ),
        (pending(), NOW, {"handled": False}, "no worker handles the type 'greet' in queue 'default'"),
        (pending(), NOW, {"paused": "deploying"}, "queue 'default' is paused: deploying"),
        (pending(), NOW, {"paused": ""}, "queue 'default' is paused"),
        (KEYED, NOW, {"waits_for": "t0"}, "waits for an earlier task of its key 'user-42': t0"),
        (pending(), NOW, {}, "due; the next free worker takes it"),
    ],
)
def test_each_reason_has_its_sentence(task, now, words, sentence):
    assert why_not_running(task, now, **words) == sentence


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (pending(expires_at=NOW), "expired at"),
        (SCHEDULED, "due in 3m"),
        (KEYED, "waits for an earlier task"),
        (running(), "leased by w1"),
        (completed(), "completed at"),
    ],
)
def test_the_first_reason_that_applies_is_given(task, sentence):
    assert why_not_running(task, NOW, handled=False, paused="deploying", waits_for="t0").startswith(sentence)


def test_a_pause_is_named_before_a_missing_worker():
    assert "is paused" in why_not_running(pending(), NOW, handled=False, paused="")


def test_a_record_without_its_times_is_still_explained():
    assert why_not_running(replace(completed(), completed_at=None), NOW) == "completed at ?"
    assert why_not_running(replace(archived(), archived_at=None), NOW) == "archived at 2026-01-28T17:00:01.000000Z"
    without_lease = replace(running(), lease_expires_at=None)
    assert why_not_running(without_lease, NOW) == "leased by w1 until 2026-01-28T17:00:00.000000Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.004, "0.004s"),
        (0.25, "0.25s"),
        (1, "1s"),
        (59.9, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (3605, "1h 5s"),
        (3661, "1h 1m"),
        (86_400 + 3600, "1d 1h"),
        (8 * 86_400, "8d"),
    ],
)
def test_durations_as_people_say_them(seconds, text):
    assert human(timedelta(seconds=seconds)) == text


def test_a_task_that_was_put_away_still_ended_as_it_did():
    for status, why in (
        (TaskStatus.Completed, None), (TaskStatus.Failed, "boom"), (TaskStatus.Cancelled, "not needed"), (TaskStatus.Expired, None)
    ):  # fmt: skip
        task = IN_STATUS[status]()
        assert how_it_ended(task) == how_it_ended(lifecycle.archive(task, at(9))) == (status, why)
