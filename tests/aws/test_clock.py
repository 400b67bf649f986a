"""The server's time is told to the microsecond from answers that say whole seconds."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from tenure.stores.aws.clock import ServerClock

START = datetime(2026, 1, 28, 17, 0, 0, 700_000, tzinfo=UTC)


class World:
    """A server with a clock, a machine with another, and a network between them."""

    def __init__(self):
        self.elapsed = 0.0
        self.shift = timedelta(0)
        self.clock = ServerClock(lambda: 5000 + self.elapsed)

    def server_time(self):
        return START + timedelta(seconds=self.elapsed) + self.shift

    def ask(self, way=0.01, back=0.01, date=None):
        sent = self.clock.monotonic()
        self.elapsed += way
        said = format_datetime(self.server_time() if date is None else date, usegmt=True)
        self.elapsed += back
        self.clock.hear(said, sent, self.clock.monotonic())

    def error(self):
        """By how many seconds the told time is behind the server's."""
        return (self.server_time() - self.clock.now()).total_seconds()


def test_the_first_answer_tells_the_time_within_a_second_and_a_round_trip():
    world = World()
    assert not world.clock.known
    world.ask()
    assert world.clock.known
    assert 0 <= world.error() <= 1.02


def test_many_answers_tell_it_within_a_round_trip():
    world, dice = World(), random.Random(1)
    for _ in range(300):
        world.ask(dice.uniform(0.001, 0.004), dice.uniform(0.001, 0.004))
        world.elapsed += dice.uniform(0, 0.05)
        assert world.error() >= -0.0001
    assert world.error() < 0.02
    assert world.clock.uncertainty < 0.04


def test_it_is_never_ahead_of_the_server_and_never_runs_backwards():
    world, dice = World(), random.Random(2)
    last = None
    for _ in range(500):
        world.ask(dice.expovariate(50), dice.expovariate(50))
        told = world.clock.now()
        assert told <= world.server_time() + timedelta(milliseconds=1)
        assert last is None or told >= last
        last = told


def test_a_server_whose_clock_goes_back_is_followed_without_running_backwards():
    world = World()
    for _ in range(100):
        world.ask()
        world.elapsed += 0.02
    before = world.clock.now()
    world.shift = timedelta(seconds=-30)
    for _ in range(10):
        world.ask()
        assert world.clock.now() >= before
    world.elapsed += 60
    assert 0 <= world.error() <= 1.1


def test_one_answer_with_a_wrong_time_moves_nothing_and_two_that_agree_do():
    world = World()
    world.ask()
    world.ask(date=datetime(2030, 1, 1, tzinfo=UTC))
    assert world.clock.now() < START + timedelta(minutes=1)
    world.ask()
    assert 0 <= world.error() <= 1.1
    world.shift = timedelta(hours=1)
    world.ask()
    world.ask()
    assert 0 <= world.error() <= 1.1


def test_an_answer_without_a_readable_time_is_no_news():
    world = World()
    world.clock.hear(None, 0, 1)
    world.clock.hear("yesterday", 0, 1)
    assert not world.clock.known


def test_told_times_have_microseconds():
    world = World()
    world.ask(0.0012345, 0.0023456)
    world.elapsed += 0.000_321
    assert world.clock.now().microsecond % 1000


def test_a_time_that_somebody_stored_has_been_for_everyone():
    clock = ServerClock(lambda: 100.0)
    clock.hear("Wed, 28 Jan 2026 12:00:00 GMT", 100.0, 100.0)
    noon = datetime(2026, 1, 28, 12, tzinfo=UTC)
    clock.has_been(noon + timedelta(seconds=0.4))
    assert clock.now() >= noon + timedelta(seconds=0.4)


def test_a_stored_time_that_cannot_be_yet_is_not_believed():
    clock = ServerClock(lambda: 100.0)
    clock.hear("Wed, 28 Jan 2026 12:00:00 GMT", 100.0, 100.0)
    noon = datetime(2026, 1, 28, 12, tzinfo=UTC)
    clock.has_been(noon + timedelta(hours=1))
    assert clock.now() == noon
