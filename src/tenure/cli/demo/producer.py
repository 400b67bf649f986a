"""The producer process of the demo. What it was promised, it writes into a ledger."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TextIO

from tenure import Queue, Task, connect
from tenure.cli.demo.plan import FOLDER, Order, plan

BATCH = 50
PAUSE = 0.05


async def produce(url: str, count: int, ledger: TextIO) -> None:
    """Submit the plan: charges one by one and twice, at the same time; the rest in batches."""
    orders = plan(count)
    async with connect(url) as queue:
        for start in range(0, len(orders), BATCH):
            for order, task in await _submit(queue, orders[start : start + BATCH]):
                line = {"id": task.id, "type": order.type, "fate": order.fate, "created": task.created}
                ledger.write(json.dumps(line) + "\n")
            await asyncio.sleep(PAUSE)
        await queue.cancel_by_type("newsletter", reason="the issue was withdrawn", by="demo")


async def _submit(queue: Queue, batch: list[Order]) -> list[tuple[Order, Task]]:
    single = [order for order in batch for _ in range(order.times) if order.times > 1]
    together = [order for order in batch if order.times == 1]
    singles = await asyncio.gather(*(queue.submit(order.type, order.input, **order.options) for order in single))
    many = await queue.submit_many([(order.type, order.input, order.options) for order in together])
    return [*zip(single, singles, strict=True), *zip(together, many, strict=True)]


if __name__ == "__main__":
    with Path(os.environ[FOLDER], "ledger.jsonl").open("a", buffering=1) as file:
        asyncio.run(produce(sys.argv[1], int(sys.argv[2]), file))
