"""Handlers in processes of their own: nothing they do reaches the worker except JSON."""

import os
import signal
from pathlib import Path

import cpu_handlers
import pytest
from waiting import until, until_status, working

from tenure import InvalidHandler, RetryPolicy, TaskStatus, Worker

AT_ONCE = RetryPolicy(base=0, jitter=0, max_attempts=2)


@pytest.fixture
def worker(memory):
    return Worker(memory, concurrency=2, retry=AT_ONCE)


async def run(worker, handler, input=None):
    worker.register(handler, executor="process")
    task = await worker.queue.submit(handler.__name__, input)
    await worker.run(until_idle=True)
    return await worker.queue.get(task.id)


async def test_a_process_handler_runs_in_another_process_and_its_result_is_json(worker):
    task = await run(worker, cpu_handlers.where, {"emoji": "🦉", "deep": [None, {}]})
    assert task.output["input"] == {"emoji": "🦉", "deep": [None, {}]}
    assert task.output["pid"] != os.getpid()


async def test_input_is_checked_by_its_annotation_there_too(worker):
    assert (await run(worker, cpu_handlers.double, 21)).output == 42
    task = await worker.queue.submit("double", "x")
    await worker.run(until_idle=True)
    refused = await worker.queue.get(task.id)
    assert (refused.status, refused.attempts) == (TaskStatus.Failed, 1)
    assert "does not fit" in refused.last_error


@pytest.mark.parametrize("handler", [cpu_handlers.exits, cpu_handlers.is_killed])
async def test_a_handler_whose_process_dies_has_failed_and_is_tried_again(worker, handler):
    task = await run(worker, handler)
    assert (task.status, task.attempts) == (TaskStatus.Failed, 2)
    assert task.last_error == "the process of the handler died"


@pytest.mark.parametrize(
    ("handler", "attempts", "words"),
    [
        (cpu_handlers.fails, 2, "ValueError: no such thing: x"),
        (cpu_handlers.fails_for_good, 1, "RuntimeError: wrapped"),
        (cpu_handlers.leaves, 2, "SystemExit: enough"),
        (cpu_handlers.interrupts_itself, 2, "KeyboardInterrupt"),
    ],
)
async def test_what_a_process_handler_raises_is_kept_with_its_traceback(worker, handler, attempts, words):
    task = await run(worker, handler, "x")
    assert (task.status, task.attempts) == (TaskStatus.Failed, attempts)
    assert words in task.last_error
    assert handler.__name__ in task.traceback


async def test_a_result_that_is_not_json_is_a_failure_for_good(worker):
    task = await run(worker, cpu_handlers.returns_an_object)
    assert (task.status, task.attempts) == (TaskStatus.Failed, 1)
    assert "the handler returned something that is not JSON" in task.last_error


async def test_a_process_handler_can_ask_to_run_later(worker):
    task = await run(worker, cpu_handlers.later)
    assert (task.status, task.attempts, task.reschedules) == (TaskStatus.Pending, 0, 1)


async def test_a_timeout_kills_the_process(worker, tmp_path):
    worker.register(cpu_handlers.never_ends, executor="process", retry=None)
    note = tmp_path / "pid"
    task = await worker.queue.submit("never_ends", str(note), timeout=5.0)
    async with working(worker):
        pid = int(await until(lambda: note.exists() and note.read_text()))
        failed = await until_status(worker.queue, task.id, "failed")
        await until(lambda: not is_alive(pid))
    assert failed.last_error == "TimeoutError: timed out after 5 s"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_all_processes_of_a_group_is_for_the_worker_alone(worker, tmp_path, number):
    """A terminal and a service manager send it to the process of the handler, too."""
    worker.register(cpu_handlers.waits_for_a_door, executor="process")
    note = tmp_path / "pid"
    task = await worker.queue.submit("waits_for_a_door", str(tmp_path), max_attempts=1)
    async with working(worker) as run:
        os.kill(int(await until(lambda: note.exists() and note.read_text())), number)
        worker.stop()
        (tmp_path / "door").touch()
        await run
    assert await worker.queue.result(task.id) == "finished"


async def test_stopping_now_kills_the_process_and_gives_the_task_back(worker, tmp_path):
    worker.register(cpu_handlers.never_ends, executor="process")
    note = tmp_path / "pid"
    task = await worker.queue.submit("never_ends", str(note))
    async with working(worker):
        pid = int(await until(lambda: note.exists() and note.read_text()))
    assert not is_alive(pid)
    task = await worker.queue.get(task.id)
    assert (task.status, task.attempts) == (TaskStatus.Pending, 0)


def in_a_function():
    def local(input): ...

    return local


async def coroutine(input): ...


def wants_context(input, context): ...


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (in_a_function(), "Define it at the top of a module"),
        (lambda _: None, "Define it at the top of a module"),
        (coroutine, "an async function runs on the event loop"),
        (wants_context, "where no context can follow"),
    ],
)
async def test_what_cannot_run_in_another_process_is_refused_at_once(worker, handler, words):
    with pytest.raises(InvalidHandler, match=words):
        worker.register(handler, "job", executor="process")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
