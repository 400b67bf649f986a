"""Metrics after chaos: what all processes counted is what the store says."""

import signal
from collections import Counter

import pytest
from chaos_account import all_tasks
from chaos_places import File
from chaos_work import plan
from counting import told_by_metrics, told_by_the_store

from chaos import Chaos
from tenure import connect
from tenure.observe.together import registry_of

TASKS = 500


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where all processes count; what one has counted is there after its death."""
    folder = tmp_path / "counts"
    folder.mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    return folder


async def counts_of(chaos, folder):
    async with connect(chaos.place.url) as queue:
        tasks = await all_tasks(queue)
    return told_by_metrics(registry_of(str(folder))), told_by_the_store(tasks)


class Restarts(Chaos):
    """Workers are frozen past their leases and stopped in the middle of their work, but not killed."""

    end = signal.SIGTERM
    weights = (6, 2, 0)


class Kills(Chaos):
    """Workers are killed, producers are not: what one of those has not counted would be more."""

    weights = (6, 2, 0)


async def test_after_freezes_and_restarts_every_counter_equals_the_store(tmp_path, folder):
    # A poisonous task kills its worker, and this is about those that are not killed.
    seed = next(
        seed for seed in range(100) if not any(job.type == "poison" for line in plan(TASKS, seed) for job in line)
    )
    chaos = await Restarts(tmp_path, File(tmp_path), seconds=3, tasks=TASKS, workers=3, seed=seed).run()
    assert chaos.broken == []
    counted, expected = await counts_of(chaos, folder)
    assert counted == expected
    assert chaos.faults["worker killed"] > 0
    assert sum(count for (metric, *_), count in expected.items() if metric == "tasks_completed_total") > TASKS / 2


async def test_after_kills_nothing_is_counted_that_was_not_and_little_is_missing(tmp_path, folder):
    """Between the commit and the count there is a moment, and a killed worker takes with it what was in it."""
    chaos = await Kills(tmp_path, File(tmp_path), seconds=3, tasks=TASKS, workers=3, seed=7).run()
    assert chaos.broken == []
    counted, expected = await counts_of(chaos, folder)
    assert counted - expected == Counter()
    kills = chaos.faults["worker killed"] + chaos.faults["worker poisoned"]
    assert kills > 0
    assert (expected - counted).total() <= 40 * kills
    submitted = {key: count for key, count in expected.items() if key[0] == "tasks_submitted_total"}
    assert submitted.items() <= counted.items()
