"""Hooks are told what happened, and cannot change it."""

import asyncio
import contextlib
import contextvars

import anyio

from tenure import RetryPolicy, TaskStatus, Worker


async def test_startup_comes_before_the_first_claim_and_shutdown_after_the_last_end(queue):
    worker, order = Worker(queue), []

    @worker.on_startup
    async def open_pool():
        order.append(("startup", (await queue.counts())[TaskStatus.Running]))

    @worker.on_shutdown
    def close_pool():
        order.append("shutdown")

    worker.on_success(lambda task: order.append("success"))

    @worker.task("job")
    async def job(input):
        order.append("job")

    await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert order == [("startup", 0), "job", "success", "shutdown"]


async def test_what_a_hook_at_the_start_has_entered_a_hook_at_the_end_can_leave(memory):
    """Task groups, cancel scopes and context variables belong to the task that enters them."""
    worker, stack, left = Worker(memory), contextlib.AsyncExitStack(), []
    worker.task("job")(lambda _: None)
    variable = contextvars.ContextVar("variable")

    @worker.on_startup
    async def enter():
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(variable.reset, variable.set("set"))
        group.start_soon(anyio.sleep, 0)

    @worker.on_shutdown
    async def leave():
        await stack.aclose()
        left.append(variable.get("left"))

    await worker.run(until_idle=True)
    assert left == ["left"]


async def test_success_is_told_only_after_the_completion_is_durable(queue):
    worker, seen = Worker(queue), []

    @worker.on_success
    async def look(task):
        stored = await queue.get(task.id)
        seen.append((task.status, stored.status, stored.output))

    @worker.task("job")
    async def job(input):
        return "result"

    await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert seen == [(TaskStatus.Completed, TaskStatus.Completed, "result")]


async def test_error_is_told_with_the_task_and_the_exception_for_each_failed_attempt(queue):
    worker, seen = Worker(queue, retry=RetryPolicy(base=0, jitter=0, max_attempts=2)), []
    worker.on_error(lambda task, error: seen.append((task.attempts, task.status, error)))
    problem = ValueError("no")

    @worker.task("job")
    async def job(input):
        raise problem

    await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert seen == [(1, TaskStatus.Pending, problem), (2, TaskStatus.Failed, problem)]


async def test_a_failing_hook_harms_nobody(queue, caplog):
    worker, after = Worker(queue, retry=None), []

    def broken(*_):
        raise RuntimeError("a hook is broken")

    async def broken_too(*_):
        raise RuntimeError("a hook is broken")

    for register in (worker.on_startup, worker.on_shutdown, worker.on_success, worker.on_error):
        register(broken)
        register(broken_too)
        register(lambda *_: after.append("called"))

    @worker.task("job")
    async def job(input):
        if input:
            raise ValueError("no")

    await queue.submit_many([("job", True), ("job", False)])
    assert await worker.run(until_idle=True) == 2
    counts = await queue.counts()
    assert (counts[TaskStatus.Completed], counts[TaskStatus.Failed]) == (1, 1)
    assert len(after) == 4
    assert sum("hook" in record.getMessage() for record in caplog.records) == 8


async def test_a_released_task_is_neither_success_nor_error(memory):
    worker, told = Worker(memory, grace=0), []
    worker.on_success(told.append)
    worker.on_error(lambda *what: told.append(what))

    @worker.task("job")
    async def job(input):
        worker.stop()
        await asyncio.Event().wait()

    await memory.submit("job", None)
    await worker.run()
    assert told == []


async def test_middleware_wraps_every_attempt_in_the_order_of_registration(memory):
    worker, order = Worker(memory), []

    def layer(name):
        @worker.middleware
        async def around(context, call_next):
            order.append(f"{name} in {context.task.type}")
            result = await call_next()
            order.append(f"{name} out")
            return f"{result} {name}"

    layer("outer")
    layer("inner")

    @worker.task("loop")
    async def loop(input):
        order.append("handler")
        return "result"

    @worker.task("thread")
    def thread(input):
        order.append("handler")
        return "result"

    for kind in ("loop", "thread"):
        order.clear()
        task = await memory.submit(kind, None)
        await worker.run(until_idle=True)
        assert order == [f"outer in {kind}", f"inner in {kind}", "handler", "inner out", "outer out"]
        assert await memory.result(task.id) == "result inner outer"


async def test_middleware_sees_exceptions_and_may_raise_its_own(memory):
    worker, seen = Worker(memory, retry=None), []

    @worker.middleware
    async def translate(context, call_next):
        try:
            return await call_next()
        except KeyError as error:
            seen.append(error)
            raise ValueError("translated") from error

    @worker.task("job")
    async def job(input):
        raise KeyError("original")

    task = await memory.submit("job", None)
    await worker.run(until_idle=True)
    assert len(seen) == 1
    assert (await memory.get(task.id)).last_error == "ValueError: translated"


async def test_middleware_may_answer_without_calling_the_handler(memory):
    worker, ran = Worker(memory), []

    @worker.middleware
    async def cache(context, call_next):
        return "from the cache"

    @worker.task("job")
    async def job(input):
        ran.append(input)

    task = await memory.submit("job", None)
    await worker.run(until_idle=True)
    assert (await memory.result(task.id), ran) == ("from the cache", [])
