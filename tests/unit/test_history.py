"""Rule 40: every transition is an event, numbered from 1, and a long history loses only its middle."""

import pytest

from tenure import lifecycle
from tenure.lifecycle import HISTORY_HEAD, HISTORY_TAIL
from tenure.task import Event, TaskStatus, decode, encode

from .builders import IN_STATUS, NOW, OUTPUT, at, claimed, failed_once, pending, running


def released_often(times: int):
    task = pending()
    for _ in range(times):
        task = claimed(task)
        task = lifecycle.release(task, task.fence, NOW, "shut down")
    return task


def test_the_first_event_is_the_submit():
    assert pending().history == (Event(1, TaskStatus.Pending, NOW, "created"),)
    assert pending().version == 1


def test_the_first_event_names_the_deadline():
    assert pending(expires_at=at(60)).history[0].why == "expires_at: 2026-01-28T17:01:00.000000Z"


def test_events_are_numbered_from_one_oldest_first():
    task = lifecycle.complete(claimed(failed_once(running(), at(1)), at(60), by="w2"), 2, OUTPUT, at(61))
    assert [(event.number, event.what, event.attempt, event.fence, event.worker) for event in task.history] == [
        (1, "created", 0, 0, None),
        (2, "claimed", 1, 1, "w1"),
        (3, "failed", 1, 1, "w1"),
        (4, "claimed", 2, 2, "w2"),
        (5, "completed", 2, 2, "w2"),
    ]
    assert [event.at for event in task.history] == [NOW, NOW, at(1), at(60), at(61)]


@pytest.mark.parametrize("status", list(TaskStatus))
def test_the_last_event_is_the_state(status):
    task = IN_STATUS[status]()
    last = task.history[-1]
    assert (last.number, last.status, last.at) == (task.version, task.status, task.updated_at)
    assert task.history_omitted == 0


def test_a_history_that_just_fits_is_whole():
    task = claimed(released_often(99))
    assert task.version == HISTORY_HEAD + HISTORY_TAIL == 200
    assert [event.number for event in task.history] == list(range(1, 201))
    assert task.history_omitted == 0


@pytest.mark.parametrize("times", [100, 101, 500])
def test_a_long_history_keeps_its_first_and_last_hundred_and_counts_the_rest(times):
    task = released_often(times)
    numbers = [event.number for event in task.history]
    assert numbers[:HISTORY_HEAD] == list(range(1, 101))
    assert numbers[HISTORY_HEAD:] == list(range(task.version - 99, task.version + 1))
    assert task.history_omitted == 2 * times + 1 - 200
    assert decode(encode(task)).history_omitted == task.history_omitted


def test_a_change_whose_answer_was_lost_is_found_in_the_history():
    before = running()
    change = failed_once(before, at(1))
    assert lifecycle.took_effect(change, change)
    assert lifecycle.took_effect(change, claimed(change, at(60), by="w2"))
    assert not lifecycle.took_effect(change, before)
    assert not lifecycle.took_effect(change, lifecycle.cancel(before, at(1)))
    assert not lifecycle.took_effect(change, lifecycle.lapse(before, at(30)))


def test_the_same_step_at_another_time_is_another_change():
    before = running()
    assert not lifecycle.took_effect(failed_once(before, at(1)), failed_once(before, at(2)))
