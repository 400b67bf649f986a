"""The smallest whole program: submit, work, read the result. It keeps its tasks in quickstart.db."""

import asyncio

from tenure import Worker, connect


async def main() -> None:
    async with connect("sqlite:///quickstart.db") as queue:
        worker = Worker(queue)

        @worker.task("greet")
        async def greet(input: dict[str, str]) -> str:  # noqa: A002 - the contract's name
            return f"hello {input['name']}"

        tasks = await queue.submit_many([("greet", {"name": name}) for name in ("Ada", "Grace", "Edsger")])
        await worker.run(until_idle=True)
        for task in tasks:
            print(await queue.result(task.id))


if __name__ == "__main__":
    asyncio.run(main())
