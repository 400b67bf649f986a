"""A line at the foot of the terminal: how much is waiting, and how fast it goes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from tenure.errors import StoreError
from tenure.task import ENDED, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from tenure.queue import Queue

INTERVAL = 0.5
WINDOW = 10


async def show_throughput(console: Console, queue: Queue) -> None:
    """Refresh the line until cancelled."""
    from rich.live import Live

    pace = Pace()
    with Live("", console=console, refresh_per_second=4, transient=True) as live:
        while True:
            try:
                counts = await queue.counts()
            except StoreError:
                live.update("[red]the store cannot be reached[/]")
            else:
                pace.add(sum(counts[status] for status in ENDED))
                live.update(line(counts, pace.per_second))
            await asyncio.sleep(INTERVAL)


def line(counts: Mapping[TaskStatus, int], per_second: float) -> str:
    """The line itself, in rich's markup."""
    return (
        f"[yellow]{counts[TaskStatus.Pending]:,} pending[/]  [cyan]{counts[TaskStatus.Running]:,} running[/]  "
        f"[green]{counts[TaskStatus.Completed]:,} completed[/]  [red]{counts[TaskStatus.Failed]:,} failed[/]  "
        f"[bold]{per_second:,.0f}/s[/]"
    )


class Pace:
    """How fast a number grows, over the last few looks at it."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def add(self, number: int) -> None:
        """The number as it is now. Retention lets it shrink; then the pace starts anew."""
        if self._seen and number < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((time.monotonic(), number))

    @property
    def per_second(self) -> float:
        """Growth per second."""
        if len(self._seen) < 2:
            return 0.0
        (since, first), (until, last) = self._seen[0], self._seen[-1]
        return (last - first) / (until - since) if until > since else 0.0
