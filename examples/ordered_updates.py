"""Updates of one account happen in order, one at a time, even when one of them fails; accounts do not wait for each other."""

import asyncio
from collections import defaultdict

from tenure import Context, RetryPolicy, Worker, connect

ACCOUNTS = ("7", "8", "9")
STEPS = ("open", "deposit", "rename", "close")


async def main() -> None:
    done: dict[str, list[str]] = defaultdict(list)
    async with connect("sqlite:///updates.db") as queue:
        worker = Worker(queue, concurrency=10, retry=RetryPolicy(base=0.05))

        @worker.task("update")
        async def update(input: dict[str, str], context: Context) -> None:  # noqa: A002 - the contract's name
            if input["step"] == "deposit" and context.attempt < 3:
                msg = "the bank is closed"
                raise ConnectionError(msg)
            done[input["account"]].append(input["step"])

        tasks = await queue.submit_many(
            [
                ("update", {"account": account, "step": step}, {"ordering_key": f"account-{account}"})
                for step in STEPS
                for account in ACCOUNTS
            ]
        )
        working = asyncio.create_task(worker.run())
        for task in tasks:
            await queue.result(task.id, timeout=60)
        worker.stop()
        print(f"{await working} attempts for {len(tasks)} tasks")
    for account, steps in sorted(done.items()):
        print(f"account {account}: {' -> '.join(steps)}")


if __name__ == "__main__":
    asyncio.run(main())
