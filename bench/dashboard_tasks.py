"""The application of the run that bench/dashboard.py shows: a shop with the troubles of a real one."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from tenure import Context, RescheduleError, RetryPolicy, Tenure

app = Tenure(retry=RetryPolicy(base=1.0, max_attempts=3))


@app.task
async def send_mail(_: Any) -> None:
    await asyncio.sleep(random.uniform(0.05, 0.15))


@app.task
async def charge_card(bank_is_back: float) -> None:
    """Fails before that time."""
    await asyncio.sleep(random.uniform(0.02, 0.06))
    if time.time() < bank_is_back:
        raise ConnectionError("the bank did not answer")


@app.task
async def make_report(is_early: bool, context: Context) -> None:
    """One that is early waits for its figures."""
    if is_early and not context.task.reschedules:
        raise RescheduleError(delay_seconds=3)
    await asyncio.sleep(random.uniform(1.0, 3.0))


@app.task
async def flash_offer(_: Any) -> None:
    await asyncio.sleep(0.02)
