"""Where things are kept is the same in every process and release, spread evenly, and moves only to new shards."""

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime

import pytest

from tenure import ids
from tenure.stores.sharded.placing import Places, name_of
from tenure.submission import build

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)
BUCKETS = range(1 << 12)

VECTORS = {
    "user-42": [0, 0, 0, 3, 3, 3, 3, 3],
    "order-7": [0, 0, 0, 3, 4, 4, 4, 4],
    "☕": [0, 0, 0, 0, 0, 0, 0, 0],
    "": [0, 1, 1, 3, 3, 3, 3, 3],
    "a": [0, 1, 2, 2, 2, 2, 2, 2],
    "b": [0, 1, 1, 3, 3, 3, 3, 3],
    "type/5/greet/sha256:00": [0, 1, 2, 2, 2, 2, 2, 2],
    "queue-group-0": [0, 0, 0, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize(("key", "shards"), VECTORS.items())
def test_a_key_is_kept_by_the_same_shard_for_ever(key, shards):
    assert [Places(count).of_text(key) for count in range(1, 9)] == shards


def test_another_process_finds_the_same_place():
    program = "from tenure.stores.sharded.placing import Places; print(Places(5).of_text('user-42'))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        )
        assert int(done.stdout) == VECTORS["user-42"][4]


def test_shards_are_called_as_the_groups_of_the_replicated_queue():
    assert [name_of(number) for number in range(3)] == ["queue-group-0", "queue-group-1", "queue-group-2"]


@pytest.mark.parametrize("count", [2, 4, 7])
def test_every_shard_keeps_an_equal_part(count):
    places = Places(count)
    parts = Counter(places.of_bucket(bucket) for bucket in BUCKETS)
    fair = len(BUCKETS) / count
    assert all(abs(part - fair) < 0.15 * fair for part in parts.values())


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_one_more_shard_takes_its_part_from_all_and_moves_nothing_else(count):
    before, after = Places(count), Places(count + 1)
    moves = [(before.of_bucket(bucket), after.of_bucket(bucket)) for bucket in BUCKETS]
    moved = [(source, target) for source, target in moves if source != target]
    assert {target for _, target in moved} == {count}
    assert {source for source, _ in moved} == set(range(count))
    fair = len(BUCKETS) / (count + 1)
    assert abs(len(moved) - fair) < 0.15 * fair


def test_a_task_is_kept_with_the_others_of_its_ordering_key_and_its_id_leads_there():
    places = Places(5)
    tasks = [build("greet", None, {"ordering_key": "user-42"}, NOW, 1000).task for _ in range(10)]
    assert {places.of_task(task) for task in tasks} == {places.of_id(task.id) for task in tasks} == {3}


def test_a_task_is_kept_with_the_record_of_its_key_on_any_number_of_shards():
    for number in range(20):
        made = build("greet", None, {"idempotency_key": f"key-{number}"}, NOW, 1000)
        for count in range(1, 9):
            places = Places(count)
            assert places.of_task(made.task) == places.of_text(made.reservation.identity)


def test_tasks_without_a_key_are_spread():
    places = Places(4)
    parts = Counter(places.of_id(ids.new_id(NOW)) for _ in range(4000))
    assert all(850 < part < 1150 for part in parts.values())
