"""Ids are UUIDv7: they sort by the time of their submit and never repeat."""

import subprocess
import sys
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import ids
from tenure.ids import new_id
from tenure.times import to_micros

NOW = datetime(2026, 1, 28, 17, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture(autouse=True)
def fresh_series(monkeypatch):
    """Ids count on from the last instant of this process, whichever test used it."""
    monkeypatch.setattr(ids, "_series", ids._Series())


def milliseconds(task_id: str) -> int:
    return uuid.UUID(task_id).int >> 80


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)))  # noqa: DTZ001 - the strategy wants it naive
def test_an_id_is_a_uuid_of_version_7_with_its_time_in_front(now):
    ids._series = ids._Series()
    text = new_id(now)
    parsed = uuid.UUID(text)
    assert text == str(parsed)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert milliseconds(text) == to_micros(now) // 1000


def test_the_first_id_of_a_millisecond_counts_from_zero():
    first, second = new_id(NOW), new_id(NOW)
    assert (uuid.UUID(first).int >> 64) & 0xFFF == 0
    assert (uuid.UUID(second).int >> 64) & 0xFFF == 1
    assert milliseconds(first) == milliseconds(second)


def test_more_ids_than_a_millisecond_can_count_still_sort():
    made = [new_id(NOW) for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert milliseconds(made[4095]) == milliseconds(made[0])
    assert milliseconds(made[4096]) == milliseconds(made[0]) + 1


def test_a_clock_that_goes_back_does_not_break_the_order():
    made = [new_id(NOW + step * MILLISECOND) for step in (5, 3, -60_000, 5, 6, 2)]
    assert made == sorted(made)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=50))
def test_later_ids_sort_after_earlier_ones_whatever_the_clock_does(steps):
    now, made = NOW, []
    for step in steps:
        now += step * MILLISECOND
        made.append(new_id(now))
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_clock_before_1970_still_gives_ids():
    made = [new_id(datetime(1900, 1, 1, tzinfo=UTC)) for _ in range(2)]
    assert made == sorted(made)
    assert uuid.UUID(made[0]).version == 7


def test_the_last_moment_of_the_calendar_fits():
    assert uuid.UUID(new_id(datetime.max.replace(tzinfo=UTC))).version == 7


def test_threads_never_make_the_same_id():
    made: list[list[str]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def work(mine: list[str]) -> None:
        start.wait()
        mine.extend(new_id(NOW) for _ in range(5_000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    fronts = {task_id[:18] for mine in made for task_id in mine}
    assert len(fronts) == 20_000, "the counted part alone is unique within a process"


def test_a_forked_child_waits_for_no_lock_of_its_parent():
    ids._series.lock.acquire()
    ids._begin_anew()
    assert uuid.UUID(new_id(NOW)).version == 7


FORK = r"""
import os, sys
from datetime import UTC, datetime
from tenure import ids
now = datetime(2026, 1, 28, tzinfo=UTC)
ids.new_id(now)
if sys.argv[1] == "locked":
    ids._series.lock.acquire()
for _ in range(3):
    if os.fork() == 0:
        os.write(1, f"{ids.new_id(now)}\n".encode())
        os._exit(0)
for _ in range(3):
    assert os.wait()[1] == 0
if sys.argv[1] == "locked":
    ids._series.lock.release()
print(ids.new_id(now))
"""


@pytest.mark.parametrize("lock", ["free", "locked"])
def test_forked_processes_make_different_ids(lock):
    done = subprocess.run([sys.executable, "-c", FORK, lock], check=True, capture_output=True, text=True, timeout=60)
    made = done.stdout.split()
    assert len(set(made)) == 4
    assert len({task_id[:18] for task_id in made}) == 1, "only the random part tells them apart"


@pytest.mark.parametrize(
    ("key", "bucket"),
    [("", 0xE3B), ("user-42", 0x6D8), ("☕", 0xCF1), ("order-7", 0xDF8)],
)
def test_the_bucket_of_a_key_is_the_same_in_every_process_and_release(key, bucket):
    assert ids.bucket(key) == bucket


def test_a_new_id_names_the_bucket_of_what_it_belongs_to():
    made = [new_id(NOW, "user-42") for _ in range(3)]
    assert made == sorted(set(made))
    assert [uuid.UUID(task_id).version for task_id in made] == [7, 7, 7]
    assert {ids.bucket_of(task_id) for task_id in made} == {ids.bucket("user-42")}


def test_ids_that_belong_to_nothing_are_spread():
    assert len({ids.bucket_of(new_id(NOW)) for _ in range(1000)}) > 800


@pytest.mark.parametrize("chosen", ["order-7", "019A4C2E-7B00-7000-8000-00000000BEEF", "x" * 36, "☕"])
def test_an_id_of_any_other_form_has_the_bucket_of_its_text(chosen):
    assert ids.bucket_of(chosen) == ids.bucket(chosen)


def test_ids_of_one_batch_share_their_random_digits_and_differ_all_the_same():
    batch = ids.Batch(NOW)
    made = [batch.new_id() for _ in range(5000)]
    assert len({text[19:-4] for text in made}) == 1
    assert ids.Batch(NOW).new_id()[19:-4] != made[0][19:-4]
    assert len(set(made)) == len(made)
    assert uuid.UUID(made[0]).variant == uuid.RFC_4122
