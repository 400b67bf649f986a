"""Rules 28, 29: when to try again, and how often."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import RetryPolicy
from tenure.errors import InvalidInput
from tenure.retry import COUNT_LIMIT, effective_max


def test_the_default_policy():
    policy = RetryPolicy()
    assert (policy.base, policy.max_delay, policy.multiplier, policy.jitter, policy.max_attempts) == (
        0.2,
        5.0,
        2.0,
        0.2,
        25,
    )


def test_the_default_delays_double_up_to_five_seconds():
    policy = RetryPolicy(jitter=0)
    assert [policy.delay(attempt) for attempt in range(1, 9)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_the_patient_policy_waits_a_minute_and_doubles_without_cap():
    policy = RetryPolicy.patient()
    assert [policy.delay(attempt, roll) for attempt, roll in ((1, 0.0), (2, 0.3), (3, 0.9), (4, 0.5), (11, 0.5))] == [
        60,
        120,
        240,
        480,
        61440,
    ]
    assert policy.max_attempts == 5


@pytest.mark.parametrize(("roll", "delay"), [(0.0, 8.0), (0.25, 9.0), (0.5, 10.0), (0.75, 11.0), (1.0, 12.0)])
def test_jitter_is_a_uniform_factor_around_one(roll, delay):
    assert RetryPolicy(base=10, max_delay=None, jitter=0.2).delay(1, roll) == pytest.approx(delay)


def test_jitter_never_leads_above_the_cap():
    policy = RetryPolicy(base=5, max_delay=5, jitter=0.5)
    assert policy.delay(1, 0.9) == 5
    assert policy.delay(1, 0.0) == 2.5


NUMBERS = st.floats(0, 1e308, allow_nan=False) | st.integers(0, 10**30)
POLICIES = st.builds(
    RetryPolicy,
    base=NUMBERS,
    max_delay=st.none() | NUMBERS,
    multiplier=st.floats(1, 1e300) | st.integers(1, 10**20),
    jitter=st.floats(0, 1),
    max_attempts=st.integers(0, 10**6),
)


@given(POLICIES, st.integers(1, 5000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_a_number_within_the_jitter_and_never_above_the_cap(policy, attempt, roll):
    delay = policy.delay(attempt, roll)
    assert delay >= 0
    assert not math.isnan(delay)
    if policy.max_delay is not None:
        assert delay <= policy.max_delay
    if math.isfinite(delay):
        plain = RetryPolicy(policy.base, policy.max_delay, policy.multiplier, 0, 0).delay(attempt)
        slack = 1e-9 * plain
        assert delay >= plain * (1 - policy.jitter) - slack
        assert delay <= plain * (1 + policy.jitter) + slack


@given(POLICIES, st.integers(1, 60))
def test_without_jitter_a_delay_never_shrinks(policy, attempt):
    steady = RetryPolicy(policy.base, policy.max_delay, policy.multiplier, 0, 0)
    assert steady.delay(attempt) <= steady.delay(attempt + 1)


@pytest.mark.parametrize("max_delay", [5.0, None])
def test_no_delay_at_all_stays_none_however_many_attempts(max_delay):
    assert RetryPolicy(base=0, max_delay=max_delay).delay(5000) == 0


@pytest.mark.parametrize("field", ["base", "max_delay", "multiplier", "jitter"])
@pytest.mark.parametrize("value", [-1, -0.001, math.nan, math.inf, -math.inf, True, "1", [1], 10**400])
def test_a_bad_parameter_is_refused_by_name_and_value(field, value):
    with pytest.raises(InvalidInput) as refusal:
        RetryPolicy(**{field: value})
    assert f"{field}={value!r}" in str(refusal.value)


@pytest.mark.parametrize(
    ("field", "value", "bound"),
    [
        ("base", None, "finite and at least 0"),
        ("multiplier", 0.99, "finite and at least 1"),
        ("multiplier", None, "finite and at least 1"),
        ("jitter", 1.01, "between 0 and 1"),
        ("jitter", None, "between 0 and 1"),
        ("max_delay", -1, "finite and at least 0"),
    ],
)
def test_the_refusal_says_the_bound(field, value, bound):
    with pytest.raises(InvalidInput, match=bound):
        RetryPolicy(**{field: value})


@pytest.mark.parametrize("value", [-1, 1.5, True, None, "5", math.inf])
def test_max_attempts_is_a_whole_number(value):
    with pytest.raises(InvalidInput) as refusal:
        RetryPolicy(max_attempts=value)
    assert f"max_attempts={value!r} must be a whole number" in str(refusal.value)


@pytest.mark.parametrize(
    "words",
    [
        {"base": 0},
        {"max_delay": 0},
        {"max_delay": None},
        {"multiplier": 1},
        {"jitter": 0},
        {"jitter": 1},
        {"max_attempts": 0},
    ],
)
def test_the_bounds_themselves_are_allowed(words):
    (field,) = words
    assert getattr(RetryPolicy(**words), field) == words[field]


@pytest.mark.parametrize(
    ("job", "policy", "limit"),
    [
        (20, 10, 10),
        (10, 20, 10),
        (3, 3, 3),
        (5, 0, 5),
        (0, 25, 25),
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, 1),
        (0, None, 1),
        (5, None, 1),
    ],
)
def test_the_limit_is_the_smaller_word_that_was_given_and_at_least_one(job, policy, limit):
    assert effective_max(job, policy) == limit


@pytest.mark.parametrize(("job_max", "policy_max"), [(2**70, 0), (0, 2**70), (2**70, 2**70)])
def test_a_stored_limit_beyond_what_a_store_can_count_holds_as_far_as_it_can(job_max, policy_max):
    assert effective_max(job_max, policy_max) == COUNT_LIMIT


def test_a_stored_policy_stays_readable_however_often_it_tries():
    assert msgspec.json.decode(b'{"max_attempts": 9223372036854775807}', type=RetryPolicy).max_attempts == 2**63 - 1
