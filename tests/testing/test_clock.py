"""The clock that tests move."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

import tenure
from tenure import InvalidInput
from tenure.testing import FakeClock


def test_it_stands_still_until_it_is_moved():
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    assert clock() == clock() == datetime(2026, 1, 1, tzinfo=UTC)
    assert clock.advance(1.5) == clock() == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert clock.advance(timedelta(microseconds=1)).microsecond == 500_001


def test_it_speaks_utc_whatever_it_is_given():
    assert FakeClock(datetime(2026, 1, 1, 12))() == datetime(2026, 1, 1, 12, tzinfo=UTC)  # noqa: DTZ001 - the point of the test
    clock = FakeClock()
    clock.set(datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    assert clock().isoformat() == "2026-01-01T10:00:00+00:00"


def test_it_can_be_set_back_but_does_not_advance_backwards():
    clock = FakeClock()
    earlier = clock() - timedelta(days=1)
    clock.set(earlier)
    assert clock() == earlier
    with pytest.raises(InvalidInput, match="negative"):
        clock.advance(-1)


@pytest.mark.parametrize("address", ["memory://", "sqlite:///{}/tasks.db"])
async def test_a_store_takes_its_time_from_it(tmp_path, address):
    clock = FakeClock()
    async with tenure.connect(address.format(tmp_path), clock=clock) as queue:
        task = await queue.submit("greet", delay=60)
        assert task.created_at == await queue.now() == clock()
        assert [found.id for found in (await queue.list("scheduled")).tasks] == [task.id]
        clock.advance(60)
        assert [found.id for found in (await queue.list("ready")).tasks] == [task.id]
