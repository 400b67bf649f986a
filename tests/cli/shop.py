"""An application for the tests of the command line."""

import asyncio
import time

from tenure import RetryPolicy, Tenure, Worker, connect

app = Tenure(retry=RetryPolicy(base=0, jitter=0), grace=5)
number = 42


@app.task
async def greet(input: dict) -> str:
    return f"hello {input.get('name')}"


@app.task
async def fails(input: dict) -> None:
    raise ValueError("it never works")


@app.task
async def lasts(input: dict) -> None:
    await asyncio.sleep(input["seconds"])


@app.task
async def loops(input: dict) -> str:
    return type(asyncio.get_running_loop()._selector).__module__


@app.task
def hangs(input: dict) -> None:
    time.sleep(600)


def application() -> Tenure:
    return app


async def worker() -> Worker:
    made = Worker(await connect())
    made.task("greet")(greet.function)
    return made
