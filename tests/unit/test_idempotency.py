"""Rules 11-16: one key, one task."""

import hashlib
import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import IdempotencyConflict
from tenure.idempotency import Kind, Reservation, Verdict, hash_key, judge, scope_of
from tenure.submission import build

from .builders import NOW, at, replace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def reservation(type="greet", input=None, key="k", scope="task_type", **options) -> Reservation:
    words = {"idempotency_key": key, "idempotency_scope": scope, **options}
    return build(type, input, words, NOW, 1000).reservation


def test_the_hash_of_a_key_is_published():
    # printf 'charge_customer:charge-ORD-123' | sha256sum
    expected = "c16719dc40dc60cc79d7a0dbe8e090c1b2a0efd6fdc45629311f0c2c5ce5782c"
    assert hash_key("charge_customer", "charge-ORD-123") == f"sha256:{expected}"
    assert reservation(type="charge_customer", key="charge-ORD-123").key_hash == f"sha256:{expected}"


@given(TEXT, TEXT)
def test_a_key_or_scope_may_contain_any_character(scope, key):
    record = reservation(key=key, scope=scope)
    assert record.key == key
    name = record.scope
    assert record.key_hash == "sha256:" + hashlib.sha256(f"{name}:{key}".encode()).hexdigest()


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("task_type", (Kind.TaskType, "greet")),
        ("queue", (Kind.Queue, "queue")),
        ("tenant-7", (Kind.Custom, "tenant-7")),
        ("greet", (Kind.Custom, "greet")),
        ("Queue", (Kind.Custom, "Queue")),
        ("slot", (Kind.Custom, "slot")),
    ],
)
def test_the_scopes(scope, expected):
    assert scope_of(scope, "greet") == expected


def test_scopes_never_collide():
    records = [
        reservation(type="queue"),
        reservation(type="queue", scope="queue"),
        reservation(type="greet"),
        reservation(scope="greet"),
        reservation(scope="slot"),
        reservation(scope="custom"),
        reservation(scope="type"),
        reservation(type="a:b", key="c"),
        reservation(type="a", key="b:c"),
        reservation(scope="a:b", key="c"),
        reservation(scope="a", key="b:c"),
        reservation(scope="a/1", key="b"),
        reservation(scope="a", key="1/b"),
        build("greet", None, {"slot": ("k", "2026-01-28")}, NOW, 1000).reservation,
        reservation(scope="slot", key="k#2026-01-28"),
    ]
    for one, other in itertools.combinations(records, 2):
        assert one.identity != other.identity, (one, other)


KINDS = st.tuples(st.sampled_from(["task_type", "queue", "custom"]), TEXT, TEXT)


@given(KINDS, KINDS)
def test_two_keys_are_one_only_if_kind_scope_and_key_are(one, other):
    def record(kind, name, key):
        if kind == "custom":
            return reservation(scope=f"x{name}", key=key)
        return reservation(type=name, scope=kind, key=key)

    def meaning(kind, name, key):
        return kind, (None if kind == "queue" else name), key

    same = meaning(*one) == meaning(*other)
    assert (record(*one).identity == record(*other).identity) is same


@pytest.mark.parametrize("type", ["greet", "part"])
def test_in_the_queues_scope_the_type_does_not_matter_to_the_key(type):
    assert reservation(type=type, scope="queue").identity == reservation(type="other", scope="queue").identity


def test_an_equal_submit_gets_the_task_that_is_there():
    found, wanted = reservation(input={"a": 1, "b": 2}), reservation(input={"b": 2, "a": 1})
    assert judge(found, wanted, NOW, task_known=True) is Verdict.Existing


def test_another_input_is_a_conflict_that_names_key_and_task():
    found, wanted = reservation(input={"a": 1}), reservation(input={"a": 2})
    with pytest.raises(IdempotencyConflict) as conflict:
        judge(found, wanted, NOW, task_known=True)
    assert (conflict.value.key, conflict.value.task_id, conflict.value.difference) == ("k", found.task_id, "input")


@pytest.mark.parametrize("scope", ["queue", "tenant-7"])
def test_another_type_in_a_shared_scope_is_a_conflict(scope):
    found, wanted = reservation(type="greet", scope=scope), reservation(type="part", scope=scope)
    assert found.identity == wanted.identity
    with pytest.raises(IdempotencyConflict, match="with another type") as conflict:
        judge(found, wanted, NOW, task_known=True)
    assert conflict.value.difference == "type"


def test_a_slot_is_taken_whatever_the_input():
    first, second = (
        build(kind, value, {"slot": ("summary", "2026-01-28")}, NOW, 1000).reservation
        for kind, value in (("greet", 1), ("part", 2))
    )
    assert first.identity == second.identity
    assert judge(first, second, NOW, task_known=True) is Verdict.Existing


@pytest.mark.parametrize("input", [1, 2])
@pytest.mark.parametrize("task_known", [True, False])
def test_a_stale_record_gives_way_even_to_another_input(input, task_known):
    found, wanted = reservation(input=1, idempotency_ttl=60), reservation(input=input)
    assert judge(found, wanted, at(60), task_known=task_known) is Verdict.TakeOver


@pytest.mark.parametrize(
    ("now", "stale"),
    [(at(60) - timedelta(microseconds=1), False), (at(60), True), (at(61), True)],
)
def test_a_record_is_stale_from_its_very_end(now, stale):
    assert reservation(idempotency_ttl=60).is_stale_at(now) is stale
    assert not reservation(idempotency_ttl=None).is_stale_at(now)


def test_a_ready_record_whose_task_is_gone_gives_way():
    assert judge(reservation(input=1), reservation(input=2), NOW, task_known=False) is Verdict.TakeOver


def test_a_record_that_was_left_half_done_is_finished():
    found = replace(reservation(), state="creating")
    assert judge(found, reservation(), NOW, task_known=False) is Verdict.Finish
    assert judge(found, reservation(), NOW, task_known=True) is Verdict.Existing


def test_a_record_that_was_left_half_done_is_not_finished_with_another_input():
    found = replace(reservation(input=1), state="creating")
    with pytest.raises(IdempotencyConflict):
        judge(found, reservation(input=2), NOW, task_known=False)
