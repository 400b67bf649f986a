"""Why a run does not come to its end: what its open tasks wait for, and where its processes are."""

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from tenure import StoreError, TaskStatus

ASK = signal.SIGUSR1
TASKS, LINES = 10, 60
"""How many tasks are told in detail, and how many lines of each process's log."""
PATIENCE = 3.0
"""Seconds that a process has for its answer."""


def answer_when_asked():
    """Write where this process is to its log when somebody asks: its coroutines if the loop turns, its threads anyway."""
    asyncio.get_running_loop().add_signal_handler(ASK, _write_coroutines)
    faulthandler.register(ASK, all_threads=True, chain=True)


def _write_coroutines():
    for task in asyncio.all_tasks():
        task.print_stack(limit=6, file=sys.stderr)
    sys.stderr.flush()


async def why(queue, processes):
    """Lines that tell it, of the store's view and of each process; `processes` leads from log files to processes."""
    lines = []
    with contextlib.suppress(StoreError):
        lines += await _open_tasks(queue)
    alive = {log: process for log, process in processes.items() if process.returncode is None}
    for process in alive.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, ASK)
    await asyncio.sleep(PATIENCE if alive else 0)
    for log in alive:
        lines += [f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-LINES:]]
    return lines


async def _open_tasks(queue):
    now = await queue.now()
    tasks = [
        task
        for status in (TaskStatus.Pending, TaskStatus.Running)
        for task in (await queue.list(status=status, limit=1000)).tasks
    ]
    last = Counter(f"{task.type} {task.history[-1].what}: {task.history[-1].why or '-'}" for task in tasks)
    lines = [
        f"-- {len(tasks)} open tasks at {now}, by the store's time",
        *(f"{n} x {word}" for word, n in last.items()),
    ]
    for task in sorted(tasks, key=lambda task: task.available_at)[:TASKS]:
        due, lease = (task.available_at - now).total_seconds(), task.lease_expires_at
        held = "" if lease is None else f", leased by {task.worker_id} for {(lease - now).total_seconds():.3f} s"
        lines.append(f"{task.id} {task.type} {task.status}, due in {due:.3f} s{held}: {await queue.explain(task.id)}")
        lines += [
            f"    {(event.at - now).total_seconds():.3f} s {event.what} {event.why or ''}"
            for event in task.history[-6:]
        ]
    return lines


def progress(folder, counts):
    """Something that changes as long as a run comes nearer to its end: what has ended, and what was acknowledged."""
    ended = sum(count for status, count in counts.items() if status.ended)
    return ended, sum(file.stat().st_size for file in Path(folder).glob("acknowledged-*"))
