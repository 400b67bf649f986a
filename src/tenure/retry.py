"""When to try again. Whether to is the task's own limit."""

from __future__ import annotations

import math
import sys
from functools import lru_cache

import msgspec

from tenure.errors import InvalidInput

LONGEST = sys.float_info.max
"""More seconds than any calendar has, and still a number to reckon with."""

COUNT_LIMIT = 2**30
"""More executions than any task needs, and a number that every store can keep."""


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Exponential back-off with jitter.

    >>> policy = RetryPolicy(jitter=0)
    >>> [policy.delay(attempt) for attempt in range(1, 8)]
    [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    """

    base: float = 0.2
    max_delay: float | None = 5.0
    multiplier: float = 2.0
    jitter: float = 0.2
    max_attempts: int = 25

    def __post_init__(self) -> None:
        _require("base", self.base, at_least=0)
        if self.max_delay is not None:
            _require("max_delay", self.max_delay, at_least=0)
        _require("multiplier", self.multiplier, at_least=1)
        _require("jitter", self.jitter, at_least=0, at_most=1)
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 0:
            msg = f"max_attempts={self.max_attempts!r} must be a whole number, zero or more (zero sets no limit of its own)."
            raise InvalidInput(msg)

    @classmethod
    def patient(cls) -> RetryPolicy:
        """A minute, doubling, without cap or jitter, five attempts: for jobs on a schedule."""
        return cls(base=60.0, max_delay=None, multiplier=2.0, jitter=0.0, max_attempts=5)

    def delay(self, attempt: int, roll: float = 0.5) -> float:
        """Seconds until the next attempt, after `attempt` failures; `roll` in [0, 1) decides the jitter."""
        try:
            plain = self.base * self.multiplier ** (attempt - 1)
        except OverflowError:
            plain = math.inf if self.base else 0.0
        cap = LONGEST if self.max_delay is None else self.max_delay
        factor = 1 - self.jitter + 2 * self.jitter * roll
        return min(min(plain, cap) * factor, cap)


@lru_cache(maxsize=1024)
def effective_max(job_max: int, policy_max: int | None) -> int:
    """How many executions a task may have: the job's word, capped by the policy's, and at least one.

    Zero is no word at all. `policy_max` is None where there is no policy, and so no second attempt.
    A stored word may be above the limit that new ones are held to.

    >>> effective_max(20, 10), effective_max(0, 25), effective_max(5, 0), effective_max(0, 0), effective_max(5, None)
    (10, 25, 5, 1, 1)
    """
    if policy_max is None:
        return 1
    if job_max > 0 and policy_max > 0:
        return min(job_max, policy_max, COUNT_LIMIT)
    return min(max(job_max, policy_max, 1), COUNT_LIMIT)


def within_bounds(field: str, policy: RetryPolicy) -> RetryPolicy:
    """The policy, if every store can count as far as it goes.

    The policy itself takes any number, because tasks that were stored with a higher one must stay readable.
    """
    if policy.max_attempts > COUNT_LIMIT:
        msg = f"{field}: max_attempts={policy.max_attempts} is more than any task needs; at most {COUNT_LIMIT} are allowed."
        raise InvalidInput(msg)
    return policy


def _require(name: str, value: float, *, at_least: float, at_most: float = LONGEST) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not at_least <= value <= at_most:
        bound = f"between {at_least:g} and {at_most:g}" if at_most < LONGEST else f"finite and at least {at_least:g}"
        msg = f"RetryPolicy({name}={value!r}): {name} must be a number, {bound}."
        raise InvalidInput(msg)
