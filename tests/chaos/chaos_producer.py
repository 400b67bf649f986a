"""A producer of a chaos run: `chaos_producer.py URL FILE COUNT SEED SECONDS PART PARTS`.

It submits its part of the plan, spread over the time, and writes down every task it was acknowledged. When a store
does not answer, it submits again, as a careful program does. Started again, it goes on where its file ends.
"""

import asyncio
import contextlib
import random
import sys
from pathlib import Path

from chaos_account import read
from chaos_stuck import answer_when_asked
from chaos_work import plan
from chaos_worker import Journal, counted

from tenure import StoreUnavailable, connect

SHARED_LINES = 8


async def insist(call):
    """Again, until there is an answer."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            return await call()
        await asyncio.sleep(random.uniform(0.02, 0.2))


async def produce(url, path, count, seed, seconds, part, parts):
    answer_when_asked()
    done = {line["job"] for line in read([Path(path)])} if Path(path).exists() else set()
    journal = Journal(path)
    lines = plan(int(count), seed)
    mine = [("own", line) for line in lines[int(part) :: int(parts)]]
    # Keys and chosen ids are submitted by several producers, whoever has the line.
    repeated = [job for line in lines for job in line if job.repeats > 1]
    shared = [("shared", repeated[start::SHARED_LINES]) for start in range(SHARED_LINES)]

    async with await insist(lambda: connect(url)) as queue:
        counted(queue)

        async def submit(job, name):
            task = await insist(lambda: queue.submit(job.type, job.input, **job.options))
            if job.cancel:
                await insist(lambda: queue.cancel(task.id, "not needed", "the producer"))
            journal.write(
                job=name,
                id=task.id,
                created=task.created,
                due=task.available_at.isoformat() if task.created else None,
                key=job.options.get("idempotency_key"),
                chosen=job.options.get("task_id"),
            )

        async def walk(kind, line):
            pause = float(seconds) / max(len(line), 1)
            for job in line:
                for turn in range(job.repeats):
                    if (name := f"{kind} {job.number} {turn}") not in done:
                        await submit(job, name)
                        await asyncio.sleep(random.random() * 2 * pause / job.repeats)

        await asyncio.gather(*(walk(kind, line) for kind, line in (*mine, *shared)))


if __name__ == "__main__":
    asyncio.run(produce(*sys.argv[1:]))
