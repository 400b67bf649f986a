"""A producer of a chaos run: `chaos_producer.py URL FILE COUNT SEED SECONDS PART PARTS`.

It submits its part of the plan, spread over the time, and writes down every task it was acknowledged.
"""

import asyncio
import random
import sys

from chaos_work import plan
from chaos_worker import Journal, counted

from tenure import connect


async def produce(url, path, count, seed, seconds, part, parts):
    journal = Journal(path)
    lines = plan(int(count), seed)
    mine = lines[int(part) :: int(parts)]
    # Keys and chosen ids are submitted by several producers, whoever has the line.
    shared = [job for line in lines for job in line if job.repeats > 1]

    async with connect(url) as queue:
        counted(queue)

        async def submit(job):
            task = await queue.submit(job.type, job.input, **job.options)
            journal.write(
                id=task.id,
                created=task.created,
                due=task.available_at.isoformat() if task.created else None,
                key=job.options.get("idempotency_key"),
                chosen=job.options.get("task_id"),
            )

        async def walk(line):
            pause = float(seconds) / max(len(line), 1)
            for job in line:
                for _ in range(job.repeats):
                    await submit(job)
                await asyncio.sleep(random.random() * 2 * pause)

        await asyncio.gather(*(walk(line) for line in mine), walk(shared))


if __name__ == "__main__":
    asyncio.run(produce(*sys.argv[1:]))
