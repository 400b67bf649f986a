"""Rule 37: what the sweeper keeps, for how long, and in whose words."""

from datetime import UTC, datetime, timedelta

import pytest

from tenure import lifecycle
from tenure.errors import InvalidInput, StoreUnavailable
from tenure.observe.events import Events, Subscriber
from tenure.stores.memory import MemoryStore
from tenure.submission import Submission
from tenure.sweeper import DEFAULT_RETENTION, Sweeper
from tenure.task import TaskStatus
from tenure.testing import Fault, FaultyStore

from .builders import IN_STATUS, LEASE, NOW, at, pending, running

DAY = timedelta(days=1)


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store(clock):
    store = MemoryStore(clock)
    await store.insert([Submission(make(id=status.value)) for status, make in IN_STATUS.items()])
    return store


async def kept(store) -> set[str]:
    return {task.id for task in await store.get(list(TaskStatus)) if task is not None}


def test_by_default_what_ended_well_is_kept_for_a_week_and_the_rest_until_told():
    assert {
        TaskStatus.Completed: 7 * DAY,
        TaskStatus.Cancelled: 7 * DAY,
        TaskStatus.Expired: 7 * DAY,
    } == DEFAULT_RETENTION


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        (DEFAULT_RETENTION, {"completed", "cancelled", "expired"}),
        ({}, set()),
        ({"failed": DAY}, {"failed"}),
        ({"dlq": DAY, "done": DAY}, {"failed", "completed"}),
        ({TaskStatus.Archived: 3600}, {"archived"}),
        ({"completed": 0}, {"completed"}),
        ({"completed": None, "cancelled": 8 * DAY}, {"cancelled"}),
        ({"completed": 9 * DAY}, set()),
        ({"completed": timedelta.max}, set()),
    ],
)
async def test_what_has_been_kept_long_enough_is_forgotten(store, clock, retention, gone):
    clock.now = NOW + 8 * DAY + timedelta(minutes=1)
    assert await Sweeper(store, retention).prune() == len(gone)
    assert await kept(store) == set(TaskStatus) - gone


@pytest.mark.parametrize(
    ("retention", "words"),
    [
        ({"snoozing": DAY}, "'snoozing' is no status. Known: completed, failed, cancelled, expired, archived."),
        ({"ready": DAY}, "'ready' is no status"),
        ({"pending": DAY}, "Retention is for ended tasks; 'pending' is not one of completed, failed, cancelled"),
        ({"in_progress": DAY}, "Retention is for ended tasks; 'running' is not one of"),
        ({"completed": -1}, "retention of completed=-1 is negative"),
        ({"completed": "7d"}, "retention of completed must be a number of seconds or a timedelta, not '7d'"),
        ({"completed": True}, "retention of completed must be a number of seconds or a timedelta, not True"),
    ],
)
def test_a_wrong_retention_is_refused_at_once(retention, words):
    with pytest.raises(InvalidInput) as refusal:
        Sweeper(MemoryStore(), retention)
    assert words in str(refusal.value)


async def test_the_sweep_settles_what_is_overdue_and_nothing_else(clock):
    store = MemoryStore(clock)
    tasks = [pending(id="late", expires_at=at(5)), running(id="lapsed"), pending(id="fine")]
    await store.insert([Submission(task) for task in tasks])
    sweeper = Sweeper(store)
    assert await sweeper.sweep() == []
    clock.now = NOW + LEASE
    changed = await sweeper.sweep()
    assert {task.id: task.status for task in changed} == {"late": TaskStatus.Expired, "lapsed": TaskStatus.Pending}
    assert await store.get(["late", "lapsed", "fine"]) == [
        lifecycle.expire(tasks[0], clock.now),
        lifecycle.lapse(tasks[1], clock.now),
        tasks[2],
    ]
    assert await sweeper.sweep() == []


class Listener(Subscriber):
    def __init__(self):
        self.heard = []

    def happened(self, events):
        self.heard += [(type(event).__name__, event.task.id) for event in events]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_the_sweep_changed_is_told_once_also_when_its_answer_was_lost(clock, when):
    inner = MemoryStore(clock)
    await inner.insert([Submission(pending(id="late", expires_at=at(5)))])
    clock.now = NOW + LEASE
    store = FaultyStore(inner, plan=[Fault("swap", when, nth=1)])
    events, listener = Events(), Listener()
    events.subscribe(listener)
    sweeper = Sweeper(store, events=events)
    with pytest.raises(StoreUnavailable):
        await sweeper.sweep()
    clock.now += timedelta(seconds=1)
    await sweeper.sweep()
    await events.finish(store)
    assert listener.heard == [("Expired", "late")]


class TwoParts(MemoryStore):
    def __init__(self, *both):
        super().__init__()
        self.both = both

    def parts(self):
        return self.both


async def test_a_part_of_the_store_that_is_away_holds_up_no_other(clock):
    here = MemoryStore(clock)
    away = FaultyStore(MemoryStore(clock), plan=[Fault("now", "before")])
    await here.insert([Submission(pending(id="late", expires_at=NOW))])
    assert [task.id for task in await Sweeper(TwoParts(away, here)).sweep()] == ["late"]
    with pytest.raises(StoreUnavailable):
        await Sweeper(TwoParts(away, away)).sweep()


async def test_a_keeping_time_before_the_calendar_began_forgets_nothing(store, clock):
    clock.now = datetime.min.replace(tzinfo=UTC) + DAY
    assert await Sweeper(store).prune() == 0
