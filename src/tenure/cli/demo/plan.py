"""What the demo submits, and how each task must end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tenure.submission import SubmitOptions

FOLDER = "TENURE_DEMO_FOLDER"
LEASE = 2.0
SEED = 1_729


class Order(NamedTuple):
    """One task to submit, and the status that it must end in."""

    type: str
    input: Any
    options: SubmitOptions
    fate: str
    times: int = 1


def plan(count: int) -> list[Order]:
    """About `count` tasks of seven types in a mixed order, the same for each run."""
    orders = [_order(number, number % 60) for number in range(count)]
    random.Random(SEED).shuffle(orders)  # noqa: S311 - a mixture, no secret
    middle = len(orders) // 2
    return [*orders[:middle], *_in_turn(count // 30), *orders[middle:]]


def _order(number: int, kind: int) -> Order:
    if kind < 8:
        fails = (0, 0, 0, 1, 1, 2, 0, 1)[kind]
        key: SubmitOptions = {"idempotency_key": f"order-{number}"}
        return Order("charge_card", {"order": number, "cents": 995, "fails": fails}, key, "completed", times=2)
    if kind < 18:
        return Order("resize_image", {"width": 100 + number}, {}, "completed")
    if kind < 22:
        trouble = ("none", "none", "broken file", "server down")[kind - 18]
        fate = "completed" if trouble == "none" else "failed"
        return Order("parse_report", {"trouble": trouble}, {"max_attempts": 3}, fate)
    if kind < 25:
        return Order("flash_offer", {"offer": number}, {"delay": 60, "ttl": 2}, "expired")
    if kind < 28:
        return Order("newsletter", {"reader": number}, {"delay": 3600}, "cancelled")
    return Order("send_email", {"to": f"customer-{number}"}, {"priority": kind % 3}, "completed")


def _in_turn(count: int) -> Iterator[Order]:
    for number in range(count):
        account = f"account-{number % 10}"
        yield Order("sync_account", {"account": account, "step": number}, {"ordering_key": account}, "completed")
