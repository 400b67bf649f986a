"""What every store uses: pauses and the stones of pruned tasks."""

from datetime import timedelta

import pytest

from tenure import payload
from tenure.stores.base import PAUSE, Note, paused_queues, remembered

from .builders import NOW, at, completed, replace

MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("value", "now", "paused"),
    [
        ({"reason": ""}, NOW, True),
        ({"reason": "", "until": None}, NOW, True),
        ({"until": at(60).isoformat()}, at(60) - MICROSECOND, True),
        ({"until": at(60).isoformat()}, at(60), False),
        ({"until": at(60).isoformat()}, at(61), False),
    ],
)
def test_a_queue_is_paused_until_just_before_the_pause_ends(value, now, paused):
    assert paused_queues([Note(PAUSE, "mail", value)], now) == ({"mail"} if paused else set())


def test_pauses_of_several_queues_do_not_mix():
    pauses = [Note(PAUSE, "mail", {"until": at(5).isoformat()}), Note(PAUSE, "print", {"reason": "no paper"})]
    assert paused_queues(pauses, NOW) == {"mail", "print"}
    assert paused_queues(pauses, at(5)) == {"print"}
    assert paused_queues([], NOW) == set()


@pytest.mark.parametrize(
    ("until", "now", "leaves_a_stone"),
    [(None, NOW, False), (at(60), at(60) - MICROSECOND, True), (at(60), at(60), False), (at(60), at(61), False)],
)
def test_a_task_is_remembered_until_just_before_its_time(until, now, leaves_a_stone):
    task = replace(completed(), remember_until=until)
    assert (remembered(task, now) is not None) is leaves_a_stone


def test_a_stone_says_who_it_was_and_how_it_ended_and_nothing_more():
    task = replace(
        completed(input_json=payload.to_json("secret"), headers={"a": "b"}), remember_until=at(60), traceback="…"
    )
    stone = remembered(task, NOW)
    assert (stone.id, stone.type, stone.status, stone.completed_at) == (task.id, task.type, task.status, at(1))
    assert (stone.input, stone.output, stone.traceback, stone.headers) == (None, None, None, {})
    assert stone.history == task.history[-1:]
    assert stone.history_omitted == task.version - 1
    assert remembered(stone, NOW) == stone
