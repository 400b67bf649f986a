"""How an attempt ends that did not succeed."""

import asyncio
import contextlib
import sys
from datetime import timedelta

import pytest
from waiting import PATIENCE, until

from tenure import PermanentError, RescheduleError, RetryPolicy, TaskStatus, Unrecoverable, Worker
from tenure.testing import run_until_done
from tenure.worker import run

QUICK = RetryPolicy(base=0, jitter=0, max_attempts=3)


class Panic(BaseException):
    """As other languages' libraries raise it."""


class Mute(Exception):
    def __str__(self):
        raise ValueError("I cannot say")


def raises_itself_as_its_cause():
    error = ValueError("round and round")
    raise error from error


def raises_permanent_as_cause():
    try:
        raise PermanentError("gone")
    except PermanentError as error:
        raise KeyError("wrapper") from error


def raises(error):
    raise error


@pytest.mark.parametrize("executor", ["async", "thread"])
@pytest.mark.parametrize(
    ("action", "attempts", "words"),
    [
        (lambda: raises(ValueError("no")), 3, "ValueError: no"),
        (lambda: raises(ValueError()), 3, "ValueError"),
        (lambda: raises(PermanentError("gone")), 1, "PermanentError: gone"),
        (lambda: raises(Unrecoverable("gone")), 1, "PermanentError: gone"),
        (raises_permanent_as_cause, 1, "KeyError: 'wrapper'"),
        (raises_itself_as_its_cause, 3, "ValueError: round and round"),
        (lambda: raises(ValueError("caf\udce9")), 3, "ValueError: caf\\udce9"),
        (lambda: raises(Mute()), 3, "Mute: (its message cannot be shown)"),
        (lambda: sys.exit(4), 3, "SystemExit: 4"),
        (lambda: raises(StopIteration()), 3, "StopIteration"),
        (lambda: raises(asyncio.CancelledError()), 3, "CancelledError"),
        (lambda: raises(Panic("deep down")), 3, "Panic: deep down"),
        (lambda: raises(BaseExceptionGroup("two", [Panic()])), 3, "BaseExceptionGroup: two"),
        (lambda: raises(TimeoutError("too slow elsewhere")), 3, "TimeoutError: too slow elsewhere"),
        (lambda: raises(ExceptionGroup("two", [ValueError("a"), KeyError("b")])), 3, "ExceptionGroup: two"),
    ],
)
async def test_whatever_a_handler_raises_is_a_failed_attempt(memory, executor, action, attempts, words):
    worker = Worker(memory, retry=QUICK)

    if executor == "async":

        @worker.task("job")
        async def job(input):
            action()

    else:

        @worker.task("job")
        def plain_job(input):
            action()

    task = await memory.submit("job", None)
    async with asyncio.timeout(20):
        await worker.run(until_idle=True)
    task = await memory.get(task.id)
    assert (task.status, task.attempts) == (TaskStatus.Failed, attempts)
    assert words in task.last_error
    assert task.failed_at is not None
    assert (await memory.counts())[TaskStatus.Failed] == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
async def test_what_would_end_a_process_ends_only_the_attempt_on_a_thread(memory, error):
    worker = Worker(memory, retry=None)

    @worker.task("job")
    def job(input):
        raise error

    task = await memory.submit("job")
    async with asyncio.timeout(PATIENCE):
        await worker.run(until_idle=True)
    assert error.__name__ in (await memory.get(task.id)).last_error


async def test_one_odd_failure_does_not_harm_those_that_end_with_it(queue):
    worker = Worker(queue, retry=None, concurrency=50)
    together = asyncio.Barrier(50)

    @worker.task("job")
    async def job(input):
        await together.wait()
        if input == 7:
            raise ValueError("caf\udce9")

    await queue.submit_many([("job", number) for number in range(50)])
    await worker.run(until_idle=True)
    counts = await queue.counts()
    assert (counts[TaskStatus.Completed], counts[TaskStatus.Failed]) == (49, 1)


@pytest.mark.parametrize(
    ("worker_policy", "handler_policy", "task_options", "attempts"),
    [
        (RetryPolicy(max_attempts=4), "inherit", {}, 4),
        (RetryPolicy(max_attempts=4), RetryPolicy(max_attempts=2), {}, 2),
        (RetryPolicy(max_attempts=4), RetryPolicy(max_attempts=2), {"retry": RetryPolicy(max_attempts=6)}, 6),
        (RetryPolicy(max_attempts=4), "inherit", {"max_attempts": 3}, 3),
        (RetryPolicy(max_attempts=4), "inherit", {"max_attempts": 9}, 4),
        (RetryPolicy(max_attempts=4), "inherit", {"max_retries": 1}, 2),
        (RetryPolicy(max_attempts=0), "inherit", {"max_attempts": 5}, 5),
        (RetryPolicy(max_attempts=0), "inherit", {}, 1),
        (RetryPolicy(max_attempts=4), None, {}, 1),
        (None, "inherit", {}, 1),
        (None, "inherit", {"max_attempts": 5}, 1),
        (None, RetryPolicy(max_attempts=3), {}, 3),
        (None, "inherit", {"retry": RetryPolicy(max_attempts=3)}, 3),
    ],
)
async def test_the_nearest_policy_says_how_often(timed, clock, worker_policy, handler_policy, task_options, attempts):
    worker = Worker(timed, retry=worker_policy)
    settings = {} if handler_policy == "inherit" else {"retry": handler_policy}
    runs = []

    @worker.task("job", **settings)
    async def job(input, context):
        runs.append(context.attempt)
        raise ValueError("no")

    task = await timed.submit("job", None, **task_options)
    await run_until_done(worker, clock)
    assert runs == list(range(1, attempts + 1))
    task = await timed.get(task.id)
    assert (task.status, task.attempts, task.limit) == (TaskStatus.Failed, attempts, attempts)


async def test_the_limit_of_the_first_claim_holds_for_every_later_worker(timed, clock):
    stingy, generous = (
        Worker(timed, retry=RetryPolicy(max_attempts=2)),
        Worker(timed, retry=RetryPolicy(max_attempts=9)),
    )
    for worker in (stingy, generous):

        @worker.task("job")
        async def job(input):
            raise ValueError("no")

    task = await timed.submit("job", None)
    await stingy.run(max_tasks=1)
    await run_until_done(generous, clock)
    assert (await timed.get(task.id)).attempts == 2


async def test_a_failed_attempt_waits_as_its_policy_says(timed, clock):
    worker = Worker(timed, retry=RetryPolicy(base=10, multiplier=3, max_delay=None, jitter=0, max_attempts=3))

    @worker.task("job")
    async def job(input):
        raise ValueError("no")

    task = await timed.submit("job", None, expires_at=clock() + timedelta(days=1))
    for delay in (10, 30):
        await worker.run(until_idle=True)
        waiting = await timed.get(task.id)
        assert waiting.available_at == clock() + timedelta(seconds=delay)
        assert waiting.expires_at == task.expires_at
        assert (waiting.worker_id, waiting.lease_expires_at) == (None, None)
        clock.advance(delay)
    await worker.run(until_idle=True)
    assert (await timed.get(task.id)).status is TaskStatus.Failed


async def test_a_handler_can_ask_to_run_again_later_without_spending_an_attempt(timed, clock):
    worker = Worker(timed)

    @worker.task("job")
    async def job(input, context):
        if context.task.reschedules < 2:
            raise RescheduleError(delay_seconds=60, extend_expiration_seconds=30)
        return context.attempt

    task = await timed.submit("job", None, ttl=100)
    await worker.run(until_idle=True)
    again = await timed.get(task.id)
    assert again.available_at == clock() + timedelta(seconds=60)
    assert again.expires_at == task.expires_at + timedelta(seconds=30)
    await run_until_done(worker, clock)
    done = await timed.get(task.id)
    assert (done.status, done.output, done.attempts, done.reschedules) == (TaskStatus.Completed, 1, 0, 2)


async def test_reschedules_are_bounded_when_the_producer_says_so(timed, clock):
    worker = Worker(timed)

    @worker.task("job")
    async def job(input):
        raise RescheduleError(1)

    task = await timed.submit("job", None, max_reschedules=3)
    assert await run_until_done(worker, clock) == 4
    task = await timed.get(task.id)
    assert task.status is TaskStatus.Failed
    assert "max reschedules (3)" in task.last_error


async def test_timeouts_of_task_and_handler_fail_the_attempt(memory):
    """The task's own word goes before the handler's."""
    worker = Worker(memory, retry=None)

    @worker.task("job", timeout=60)
    async def job(input):
        await asyncio.Event().wait()

    @worker.task("hasty", timeout=0.01)
    async def hasty(input):
        if input == "long":
            await until(lambda: asyncio.get_running_loop().time() > begun + 0.05)
        else:
            await asyncio.Event().wait()
        return "had time"

    begun = asyncio.get_running_loop().time()
    by_task = await memory.submit("job", None, timeout=0.02)
    by_handler = await memory.submit("hasty", None)
    patient = await memory.submit("hasty", "long", timeout=60)
    async with asyncio.timeout(20):
        await worker.run(until_idle=True)
    assert (await memory.get(by_task.id)).last_error == "TimeoutError: timed out after 0.02 s"
    assert (await memory.get(by_handler.id)).last_error == "TimeoutError: timed out after 0.01 s"
    assert await memory.result(patient.id) == "had time"


async def test_a_timed_out_attempt_is_retried_like_any_other(memory):
    worker = Worker(memory, retry=QUICK)

    @worker.task("job", timeout=0.01)
    async def job(input, context):
        if context.attempt < 3:
            await asyncio.Event().wait()
        return "third time lucky"

    task = await memory.submit("job", None)
    await worker.run(until_idle=True)
    assert await memory.result(task.id) == "third time lucky"


async def test_a_handler_that_goes_on_after_its_timeout_is_left_behind_and_its_slot_serves_others(
    memory, monkeypatch, caplog
):
    monkeypatch.setattr(run, "LAST_WORDS", 0.01)
    worker, go = Worker(memory, retry=None, concurrency=1), asyncio.Event()

    @worker.task("deaf", timeout=0.01)
    async def deaf(input):
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()

    @worker.task("job")
    async def job(input): ...

    task = await memory.submit("deaf")
    other = await memory.submit("job")
    async with asyncio.timeout(PATIENCE):
        await worker.run(until_idle=True)
    go.set()
    assert (await memory.get(task.id)).last_error == "TimeoutError: timed out after 0.01 s"
    assert (await memory.get(other.id)).status is TaskStatus.Completed
    assert any("the attempt has failed and the handler left behind" in line for line in caplog.messages)
