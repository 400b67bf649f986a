"""A worker as a program: `worker_program.py URL GRACE`. It says on its standard output what happens."""

import asyncio
import contextlib
import sys
import threading

from tenure import Worker, connect


def say(word):
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(url, grace):
    async with connect(url) as queue:
        worker = Worker(queue, concurrency=2, grace=grace, lease=3600)

        @worker.task("wait")
        async def wait(input):
            say(f"running {input}")
            try:
                # The test opens this door by submitting a task under this id.
                while await queue.get(f"door {input}") is None:
                    await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                say(f"cancelled {input}")
                raise
            return "finished"

        @worker.task("stuck")
        def stuck(input):
            say("stuck")
            threading.Event().wait()

        @worker.task("deaf")
        async def deaf(input):
            say("deaf")
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        worker.on_shutdown(lambda: say("shutdown"))
        ended = await worker.run()
        say(f"ended {ended}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
