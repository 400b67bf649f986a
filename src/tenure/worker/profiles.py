"""Ready settings for workers."""

from __future__ import annotations

from typing import TypedDict

from tenure.retry import RetryPolicy


class Profile(TypedDict):
    """Settings of a worker that go together: `Worker(queue, **SCHEDULED_JOBS)`."""

    poll: float
    concurrency: int
    retry: RetryPolicy


SCHEDULED_JOBS: Profile = {"poll": 30.0, "concurrency": 25, "retry": RetryPolicy.patient()}
"""For jobs of a schedule that may start half a minute late and cost little while nothing is due: a poll every 30 s,
25 jobs at a time, and retries after a minute, doubling, five attempts. On DynamoDB, with `poll=30` in the address."""
