"""Log lines: one per change, with the ids of the task as fields."""

import asyncio
import io
import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from tenure import Queue, RescheduleError, RetryPolicy, StoreUnavailable, Worker, lifecycle
from tenure.observe.events import Failed
from tenure.observe.logging import FIELDS, JsonHandler, JsonLines, Logging, TextLines, tell_failure
from tenure.stores.base import Change, Want
from tenure.stores.memory import MemoryStore
from tenure.sweeper import Sweeper
from tenure.testing import FakeClock, Fault, FaultyStore


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.DEBUG, "tenure")
    return lambda: [record for record in caplog.records if hasattr(record, "task_id")]


async def run_all(queue, *submits, **settings):
    worker = Worker(queue, worker_id="w1", retry=RetryPolicy(base=0, jitter=0, max_attempts=2), **settings)

    @worker.task("greet")
    async def greet(input):
        return "hello"

    @worker.task("fails")
    async def fails(input):
        raise ValueError("not today")

    tasks = [await queue.submit(*submit) for submit in submits]
    await worker.run(until_idle=True)
    return tasks


async def test_each_change_is_one_line_with_its_ids(queue, lines):
    queue.observe(Logging())
    (task,) = await run_all(queue, ("greet",))
    fields = ("what", "task_id", "task_type", "queue", "attempt", "worker_id", "status")
    assert [tuple(getattr(line, field) for field in fields) for line in lines()] == [
        ("submitted", task.id, "greet", "default", 0, None, "pending"),
        ("claimed", task.id, "greet", "default", 1, "w1", "running"),
        ("completed", task.id, "greet", "default", 1, "w1", "completed"),
    ]
    assert [line.levelname for line in lines()] == ["DEBUG", "DEBUG", "INFO"]
    assert lines()[-1].getMessage() == f"task {task.id} (greet) completed in attempt 1 on w1"
    assert lines()[-1].seconds >= 0


async def test_failures_are_told_once_whether_anybody_subscribed_or_not(queue, lines):
    await run_all(queue, ("fails",))
    without = [(line.levelname, line.attempt, line.reason) for line in lines()]
    assert without == [("WARNING", 1, "error"), ("ERROR", 2, "error")]
    queue.observe(Logging())
    await run_all(queue, ("fails",))
    assert [(line.levelname, line.attempt) for line in lines() if line.what == "failed"][2:] == [
        ("WARNING", 1),
        ("ERROR", 2),
    ]
    assert "failed in attempt 2 on w1: ValueError: not today; now failed" in lines()[-1].getMessage()


async def lapsed(queue, clock, task_id, **options):
    """A task whose worker is gone."""
    await queue.submit("greet", task_id=task_id, **options)
    await queue.store.claim(Want("gone", ("default",), {"greet": 9}, 1, timedelta(seconds=5)))
    clock.advance(5)


@pytest.mark.parametrize("subscribers", [[], [Logging()]], ids=["nobody subscribed", "Logging subscribed"])
@pytest.mark.parametrize("finder", ["sweeper", "claim"])
async def test_a_lapse_is_told_once_like_a_failure(lines, caplog, finder, subscribers):
    caplog.set_level(logging.WARNING, "tenure")
    clock = FakeClock()
    queue = Queue(MemoryStore(clock)).observe(*subscribers)
    for task_id, limit in (("dead", 1), ("again", 2)):
        await lapsed(queue, clock, task_id, max_attempts=limit)
        if finder == "sweeper":
            await Sweeper(queue.store, events=queue.events).sweep()
        else:
            await run_all(queue)
    await queue.close()
    assert [(line.task_id, line.levelname, line.what, line.reason, line.attempt) for line in lines()] == [
        ("dead", "ERROR", "lapsed", "lapsed", 1),
        ("again", "WARNING", "lapsed", "lapsed", 1),
    ]
    assert lines()[0].getMessage() == (
        "task dead (greet) lapsed in attempt 1 on gone: lease lapsed (held by gone); now failed"
    )


async def test_a_dead_letter_by_a_lapse_is_told_where_only_errors_are(lines, caplog):
    caplog.set_level(logging.ERROR, "tenure")
    clock = FakeClock()
    queue = Queue(MemoryStore(clock)).observe(Logging())
    await lapsed(queue, clock, "dead", max_attempts=1)
    await Sweeper(queue.store, events=queue.events).sweep()
    await queue.close()
    assert [line.levelname for line in lines()] == ["ERROR"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lapse_whose_answer_was_lost_is_told_once_and_looked_for_no_longer(lines, when, monkeypatch):
    clock, looks = FakeClock(), []
    queue = Queue(FaultyStore(MemoryStore(clock), plan=[Fault("swap", when, nth=1)]))
    get = queue.store.get

    async def seen(ids):
        looks.append(ids)
        return await get(ids)

    monkeypatch.setattr(queue.store, "get", seen)
    await lapsed(queue, clock, "one")
    sweeper = Sweeper(queue.store)
    with pytest.raises(StoreUnavailable):
        await sweeper.sweep()
    for _ in range(2):
        clock.advance(1)
        await sweeper.sweep()
    assert [line.what for line in lines()] == ["lapsed"]
    assert looks == [["one"]]


async def test_an_error_of_several_lines_is_one_line(queue, lines):
    worker = Worker(queue, worker_id="w1", retry=None)

    @worker.task("forges")
    async def forges(input):
        raise ValueError(input)

    await queue.submit("forges", "a\nERROR b\r\x1b[2J\u2028c\x85d")
    await worker.run(until_idle=True)
    (line,) = lines()
    assert line.getMessage().endswith(r"ValueError: a\nERROR b\r\x1b[2J\u2028c\x85d; now failed")
    assert line.why == "ValueError: a\nERROR b\r\x1b[2J\u2028c\x85d"


async def test_a_reason_of_several_lines_is_one_line(queue, lines):
    queue.observe(Logging())
    task = await queue.submit("greet", delay=60)
    await queue.cancel(task.id, reason="no\nneed")
    await asyncio.sleep(0)
    assert lines()[-1].getMessage() == rf"task {task.id} (greet) was cancelled: no\nneed"


async def test_the_line_of_a_failure_has_all_fields(queue, lines):
    (task,) = await run_all(queue, ("fails",))
    assert {line.why for line in lines()} == {"ValueError: not today"}
    tell_failure(Failed(await queue.get(task.id), seconds=1.5))
    assert set(FIELDS) <= vars(lines()[-1]).keys()
    assert lines()[-1].seconds == 1.5


async def test_an_attempt_that_is_not_counted_is_told_by_its_number(queue, lines):
    queue.observe(Logging())
    worker = Worker(queue, worker_id="w1", grace=0)

    @worker.task("again")
    async def again(input):
        raise RescheduleError(delay_seconds=60)

    @worker.task("long")
    async def long(input, context):
        await queue.cancel(input)
        worker.stop()
        await asyncio.Event().wait()

    task = await queue.submit("again")
    await worker.run(until_idle=True)
    await queue.submit("long", task.id)
    await worker.run()
    told = {line.what: line for line in lines()}
    assert {event: told[event].attempt for event in ("rescheduled", "released", "cancelled")} == {
        "rescheduled": 1,
        "released": 1,
        "cancelled": 0,
    }
    assert "was rescheduled in attempt 1 on w1" in told["rescheduled"].getMessage()
    assert "was given back in attempt 1 on w1" in told["released"].getMessage()


async def test_the_line_of_a_claim_that_was_lost_says_why(queue, lines):
    worker = Worker(queue, worker_id="w1")

    @worker.task("long")
    async def long(input, context):
        task = context.task
        await queue.store.swap([Change(task, lifecycle.release(task, task.fence, await queue.now(), "by hand"))])
        worker.stop()

    await queue.submit("long")
    await worker.run()
    (line,) = lines()
    assert (line.what, line.attempt) == ("lost", 1)
    assert line.why
    assert line.getMessage().endswith(f": {line.why}")


async def test_text_is_one_line_with_its_task_and_a_traceback_keeps_its_own(queue):
    stream, logger = io.StringIO(), logging.getLogger("tenure.task")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLines("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    worker = Worker(queue)

    @worker.task("says")
    async def says(input, context):
        try:
            raise ValueError("a\x1b[2J")
        except ValueError:
            context.logger.exception("b\nc\x1b[2J", stack_info=True)

    task = await queue.submit("says")
    await worker.run(until_idle=True)
    logger.warning("of no task")
    logger.removeHandler(handler)
    first, *lines, last = stream.getvalue().splitlines()
    assert first == rf"ERROR b\nc\x1b[2J [says {task.id} attempt 1]"
    assert r"ValueError: a\x1b[2J" in lines
    assert "Stack (most recent call last):" in lines
    assert last == "WARNING of no task"
    assert "\x1b" not in stream.getvalue()


async def test_what_a_handler_says_names_its_task_and_queue(queue, lines):
    worker = Worker(queue, worker_id="w1", queues=["mail"])

    @worker.task("says")
    async def says(input, context):
        context.logger.info("hello")

    task = await queue.submit("says", queue="mail")
    await worker.run(until_idle=True)
    (line,) = lines()
    told = (line.task_id, line.task_type, line.queue, line.attempt, line.worker_id)
    assert told == (task.id, "says", "mail", 1, "w1")


async def test_an_idle_worker_writes_no_lines(queue, caplog):
    """Polls, sweeps and renewals say nothing, however many there are."""
    queue.observe(Logging())
    caplog.set_level(logging.DEBUG, "tenure")
    worker = Worker(queue, poll=0.001, sweep_interval=0.001)
    worker.task("greet")(lambda _: None)
    looked = 0
    original = queue.store.claim

    async def claim(want):
        nonlocal looked
        looked += 1
        if looked == 100:
            worker.stop()
        return await original(want)

    queue.store.claim = claim
    await worker.run()
    assert [record.getMessage().split(" ")[2] for record in caplog.records] == ["takes", "stopped"]


async def test_nothing_is_formatted_that_nobody_wants(queue, caplog):
    caplog.set_level(logging.WARNING, "tenure")
    queue.observe(Logging())
    await run_all(queue, ("greet",))
    assert caplog.records == []


async def test_json_lines_carry_every_field_and_the_user_s_own(queue):
    made = []

    class Keep(logging.Handler):
        def emit(self, record):
            made.append(self.format(record))

    handler, logger = Keep(), logging.getLogger("tenure.events.test")
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    queue.observe(Logging(logger))
    (task,) = await run_all(queue, ("greet",))
    try:
        1 / 0  # noqa: B018 - for its traceback
    except ZeroDivisionError:
        logger.exception("grüße %s", "Ada", extra={"order": Path("a/b")})
    logger.removeHandler(handler)
    first, second = map(json.loads, made)
    assert first["task_id"] == task.id
    assert (first["level"], first["what"], first["logger"]) == ("info", "completed", "tenure.events.test")
    assert (second["message"], second["order"]) == ("grüße Ada", "a/b")
    assert "ZeroDivisionError" in second["traceback"]


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no words")


ENDLESS = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("sur \udcff", r"sur \udcff"),
        (["sur \udcff"], r"['sur \udcff']"),
        (ENDLESS, "[[...]]"),
        (Unspeakable(), "(Unspeakable, which cannot be shown)"),
        ({"a": [1, Path("b")]}, {"a": [1, "b"]}),
    ],
    ids=["surrogate", "surrogate inside", "endless", "no words", "anything else"],
)
def test_what_is_no_json_costs_no_line(value, written):
    record = logging.makeLogRecord(
        {"msg": "sur \udcff x", "levelname": "INFO", "order": value, "note": 7, "level": "odd"}
    )
    line = json.loads(JsonLines().format(record))
    assert line["level"] == "info"
    assert (line["message"], line["order"], line["note"]) == (r"sur \udcff x", written, 7)


def test_a_stack_is_a_field():
    record = logging.makeLogRecord({"msg": "here", "stack_info": "Stack (most recent call last):\n  there"})
    assert json.loads(JsonLines().format(record))["stack"] == "Stack (most recent call last):\n  there"


async def test_structlog_shows_the_same_fields(queue):
    made = []

    class Keep(logging.Handler):
        def emit(self, record):
            made.append(json.loads(self.format(record)))

    handler, logger = Keep(), logging.getLogger("tenure.events.structlog")
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    queue.observe(Logging(logger))
    (task,) = await run_all(queue, ("greet",))
    logger.removeHandler(handler)
    (line,) = made
    assert (line["task_id"], line["worker_id"], line["level"]) == (task.id, "w1", "info")
    assert line["event"] == f"task {task.id} (greet) completed in attempt 1 on w1"
    assert line["what"] == "completed"


async def test_many_json_lines_at_once_are_the_same_as_one_by_one(queue):
    """One handler alone gets the lines of a batch in one piece; beside another, record by record."""
    logger = logging.getLogger("tenure.events.pieces")
    logger.propagate, logger.level = False, logging.INFO
    queue.observe(Logging(logger))
    told = []
    for others in ([], [logging.NullHandler()]):
        stream = io.StringIO()
        logger.handlers = [JsonHandler(stream), *others]
        tasks = await run_all(queue, ("greet",), ("greet",))
        await queue.cancel((await queue.submit("greet", delay=60)).id, reason="no need")
        await asyncio.sleep(0)
        told.append([json.loads(line) for line in stream.getvalue().splitlines()])
        assert [line["task_id"] for line in told[-1]][:2] == [task.id for task in tasks]
    logger.handlers = []
    for together, alone in zip(*told, strict=True):
        assert together.keys() == alone.keys()
        own = ("what", "status", "level", "logger", "why", "attempt")
        assert [together.get(name) for name in own] == [alone.get(name) for name in own]
    assert told[0][-1]["why"] == "no need"
