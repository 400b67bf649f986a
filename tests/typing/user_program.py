"""What a user writes. It is never run: mypy reads it, and each `assert_type` is a fact that mypy has to see."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, assert_type

from pydantic import BaseModel

from tenure import BaseJobHandler, Context, Queue, TaskFunction, Tenure, Worker

app = Tenure("memory://")


class Order(BaseModel):
    number: int


@app.task
async def ship(input: Order) -> str:
    return f"order {input.number}"


@app.task("send_invoice", timeout=timedelta(minutes=1), options={"queue": "office"})
async def invoice(input: Order, context: Context) -> int:
    return context.attempt + input.number


@app.task(timeout=5)
def count(input: list[int]) -> int:
    return sum(input)


@app.task
class Thumbnail(BaseJobHandler):
    def handle(self, payload: Order) -> str:
        return f"a picture of {payload.number}"


@app.task("large_thumbnail", timeout=5)
class LargeThumbnail(BaseJobHandler):
    def handle(self, payload: Order) -> str:
        return f"a large picture of {payload.number}"


class SmallThumbnail(BaseJobHandler):
    def handle(self, payload: Order) -> str:
        return f"a small picture of {payload.number}"


async def use(queue: Queue) -> None:
    assert_type(ship, TaskFunction[Order, Coroutine[Any, Any, str]])
    assert_type(invoice, TaskFunction[Order, Coroutine[Any, Any, int]])
    assert_type(count, TaskFunction[list[int], int])
    assert_type(app.task(SmallThumbnail), TaskFunction[Any, Any])
    assert_type(app.task("tiny", timeout=5)(SmallThumbnail), TaskFunction[Any, Any])

    await ship.submit(Order(number=1), ttl=timedelta(hours=1))
    await invoice.submit(Order(number=1))
    await invoice.submit("no order")  # type: ignore[arg-type]
    await count.submit_many(([number] for number in range(3)), priority=5)
    await count.submit_many([["no number"]])  # type: ignore[list-item]

    batch: list[tuple[str, dict[str, int]]] = [("ship", {"number": 1})]
    await queue.submit_many(batch)
    await queue.submit_many([("ship", {"number": 1}), ("ship", Order(number=2), {"priority": 5})], ttl=5)

    worker = Worker(queue, handlers=app.tasks.values(), grace=timedelta(minutes=1), poll=timedelta(seconds=1))
    worker.add(ship)

    @worker.task
    async def greet(input: str) -> str:
        return input

    @worker.task("remind", timeout=timedelta(seconds=5))
    def remind(input: Order, context: Context) -> None: ...

    assert_type(await greet("Ada"), str)
    remind("no order")  # type: ignore[call-arg, arg-type]
