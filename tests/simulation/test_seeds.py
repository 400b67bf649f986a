"""The simulation itself: it keeps every promise, and it is the same every time."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from simulated.simulation import Simulation, simulate
from simulated.telling import report

CHUNK = 25
NEW = secrets.randbelow(10**9)


def judged(seeds):
    for seed in seeds:
        if simulate(seed).broken:
            pytest.fail(report(seed), pytrace=False)


@pytest.mark.parametrize("first", range(0, 6 * CHUNK, CHUNK))
def test_no_invariant_breaks_whatever_goes_wrong(first):
    judged(range(first, first + CHUNK))


def test_no_invariant_breaks_in_seeds_that_nobody_has_seen_before(capsys):
    with capsys.disabled():
        sys.stdout.write(f"\nsimulating the new seeds {NEW} to {NEW + CHUNK - 1}\n")
    judged(range(NEW, NEW + CHUNK))


def test_a_seed_is_the_same_in_every_process_and_with_or_without_its_story():
    program = "from simulated.simulation import simulate; print(*(simulate(seed).digest for seed in range(5)))"
    folder = Path(__file__).parent
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(folder)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1] == [simulate(seed, story=True).digest for seed in range(5)]


def test_two_seeds_are_two_stories():
    assert len({simulate(seed).digest for seed in range(5)}) == 5


def test_a_seed_leaves_nothing_behind():
    """Not its random numbers, not its clock: what runs after it in this process is as before."""
    import random

    from tenure import ids
    from tenure.worker import surroundings

    before = random.getstate(), ids._random, surroundings.monotonic, surroundings.threads
    simulate(1)
    assert before == (random.getstate(), ids._random, surroundings.monotonic, surroundings.threads)


def test_the_simulation_reaches_what_it_says():
    """Every kind of trouble and every kind of step occurs within the fixed seeds."""
    plans = [Simulation(seed).plan for seed in range(6 * CHUNK)]
    assert {kind for plan in plans for _, kind, *_ in plan.troubles} == {
        "crash", "pause", "partition", "outage", "restart", "stop now", "jump", "jump back", "lose producer"
    }  # fmt: skip
    assert {plan.workers for plan in plans} == {1, 2, 3}
    outcomes = [simulate(seed) for seed in range(20)]
    steps = {name for outcome in outcomes for name in outcome.figures}
    assert steps >= {
        "claimed", "completed", "failed", "lapsed", "released", "rescheduled", "expired", "cancelled",
        "cancel requested", "stopped", "retried", "archived",
    }  # fmt: skip
    faults = {name for outcome in outcomes for name in outcome.faults}
    assert faults >= {"delayed", "lost before effect", "lost after effect", "duplicated", "wake-up lost"}
