"""A web shop in miniature: requests come in and only submit; a worker beside them does what takes long.

Run it as it is, or in two terminals: `python app.py requests` and `tenure worker app:app`.
"""

import asyncio
import random
import sys

from pydantic import BaseModel

from tenure import RetryPolicy, Tenure

app = Tenure("sqlite:///shop.db", concurrency=20)


class Order(BaseModel):
    """What a customer wants."""

    number: int
    email: str


@app.task(retry=RetryPolicy(base=0.05, max_attempts=10))
async def confirm(order: Order) -> str:
    """Tell the customer. The mail server is moody, so this is tried several times."""
    if random.random() < 0.3:
        msg = "the mail server is busy"
        raise ConnectionError(msg)
    return f"order {order.number}: confirmed to {order.email}"


async def handle_request(number: int) -> str:
    """A customer who clicks twice orders once: the key is the number of the order."""
    order = Order(number=number, email=f"customer-{number}@example.org")
    task = await confirm.submit(order, idempotency_key=f"order-{number}", ttl=3600)
    return task.id


async def requests() -> list[str]:
    """Twenty orders, and every customer clicks twice."""
    clicks = [handle_request(number) for number in range(20) for _ in range(2)]
    return sorted(set(await asyncio.gather(*clicks)))


async def main() -> None:
    async with app:
        if sys.argv[1:] == ["requests"]:
            print(f"{len(await requests())} tasks for 40 clicks")
            return
        queue = await app.queue()
        worker = app.worker(queue)
        working = asyncio.create_task(worker.run())
        ids = await requests()
        print(f"{len(ids)} tasks for 40 clicks")
        for task_id in ids:
            print(await queue.result(task_id, timeout=60))
        worker.stop()
        print(f"{await working} attempts")


if __name__ == "__main__":
    asyncio.run(main())
