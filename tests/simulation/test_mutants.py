"""The checker can say no: every planted bug is seen, and every invariant has one."""

from pathlib import Path

import pytest
from catching import first_seed, rows
from mutants import MUTANTS, planted
from simulated.telling import report

from tenure.testing.invariants import INVARIANTS

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
NAMES = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}


def test_every_invariant_has_a_planted_bug():
    assert {mutant.invariant for mutant in MUTANTS} == NAMES


def test_the_page_lists_every_planted_bug_and_the_seed_that_caught_it():
    assert list(rows(PAGE)) == [(mutant.what, mutant.invariant) for mutant in MUTANTS]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_planted_bug_is_caught(mutant):
    """By the seed on the page, or, where a change of the code has moved the dice, by one soon after it."""
    assert first_seed(mutant, rows(PAGE)[mutant.what, mutant.invariant]) >= 0


def test_a_failing_seed_tells_what_broke_the_history_and_what_happened():
    mutant = next(mutant for mutant in MUTANTS if mutant.what == "a completion forgets when it happened")
    seed = rows(PAGE)[mutant.what, mutant.invariant]
    with planted(mutant):
        told = report(first_seed(mutant, seed))
    assert "history alone rebuilds the state" in told
    assert "completed_at is None, but its history says" in told
    assert "history of" in told
    assert "what happened:" in told
    assert "starts" in told
