"""How many tasks a worker holds that have not begun."""

import pytest

from tenure.worker import surroundings
from tenure.worker.prefetch import LEAST, LIMIT, MOST, Prefetch


@pytest.fixture
def passes(monkeypatch):
    """Lets time pass on the clock of the worker."""
    now = [0.0]
    monkeypatch.setattr(surroundings, "monotonic", lambda: now[0])

    def passes(seconds):
        now[0] += seconds

    return passes


def at_rate(passes, per_second):
    prefetch = Prefetch()
    for _ in range(per_second):
        passes(1 / per_second)
        prefetch.ended(1)
    return prefetch


def test_nothing_waits_in_a_worker_that_has_ended_nothing(passes):
    assert Prefetch().room(0) == 0


@pytest.mark.parametrize("per_second", [100, 1000, 10_000])
def test_what_will_begin_within_the_next_moment_may_wait(passes, per_second):
    assert at_rate(passes, per_second).room(0) == pytest.approx(per_second * LEAST, rel=0.1, abs=1)


def test_more_is_asked_for_when_half_of_it_has_begun(passes):
    prefetch = at_rate(passes, 1000)
    full = prefetch.room(0)
    assert prefetch.room(full // 2 + 1) is None
    assert prefetch.room(full // 2) == full - full // 2


def test_slow_claims_are_made_earlier_up_to_a_limit(passes):
    prefetch = at_rate(passes, 1000)
    for _ in range(20):
        prefetch.claimed(0.1)
    assert prefetch.room(0) == pytest.approx(1000 * 0.3, rel=0.1)
    for _ in range(20):
        prefetch.claimed(10)
    assert prefetch.room(0) == pytest.approx(1000 * MOST, rel=0.1)
    for _ in range(20):
        prefetch.claimed(0.001)
    assert prefetch.room(0) == pytest.approx(1000 * LEAST, rel=0.1)


def test_no_more_than_a_fixed_number_waits(passes):
    assert at_rate(passes, 100_000).room(0) == LIMIT


def test_while_nothing_ends_less_and_less_may_wait(passes):
    prefetch = at_rate(passes, 1000)
    full = prefetch.room(0)
    passes(1)
    assert prefetch.room(0) <= full / 20
    passes(2)
    assert prefetch.room(0) == 0
