"""`tenure stats`, `workers`, `top`, `pause`, `resume`, `tail` and `doctor`."""

import asyncio
import json

import pytest

from tenure import Worker, connect
from tenure.cli.program import invoke
from tenure.doctor import examine
from tenure.queue import Queue
from tenure.stores.base import Claimed
from tenure.stores.memory import MemoryStore
from tenure.tail import follow

from .conftest import work_off


@pytest.fixture
def busy(terminal, queue):
    queue.submit("greet", "Ada")
    queue.submit("breaks", "this")
    asyncio.run(work_off(terminal.url))
    queue.submit("waits", queue="mail")


def test_stats_count_by_queue_and_by_type(terminal, busy):
    lines = [line.split() for line in terminal.process("stats").out.splitlines()]
    assert ["default", "0", "0", "1", "1", "0", "0", "0"] in lines
    assert ["mail", "1", "0", "0", "0", "0", "0", "0"] in lines
    assert ["total", "1", "0", "1", "1", "0", "0", "0"] in lines
    assert ["breaks", "0", "0", "0", "1", "0", "0", "100.0%"] in lines
    assert "waiting without a worker: waits" in terminal("stats").out


def test_stats_as_json_agree_with_the_queue(terminal, queue, busy):
    shown = terminal("stats", "--json").json
    assert shown["counts"] == {status.value: count for status, count in queue.counts().items()}
    assert shown["types"] == {"breaks": {"failed": 1}, "greet": {"completed": 1}, "waits": {"pending": 1}}
    assert shown["per_second"]["completed"] == pytest.approx(1 / 60, abs=0.001)
    assert shown["oldest_pending_seconds"] >= 0
    assert (shown["workers"], shown["paused"], shown["damaged"]) == (0, {}, 0)


def test_top_in_a_pipe_is_a_stream_of_the_same_figures(terminal, busy):
    looks = terminal("top", "--json", "--interval", "100ms", "--count", "2").objects
    assert [look["counts"]["failed"] for look in looks] == [1, 1]
    assert "last minute:" in terminal("top", "--count", "1").out


async def test_workers_says_who_is_alive_and_what_they_run(terminal):
    started, release = asyncio.Event(), asyncio.Event()
    async with connect(terminal.url) as queue:
        worker = Worker(queue, worker_id="w1", concurrency=3)

        @worker.task("waits")
        async def waits(input):
            started.set()
            await release.wait()

        task = await queue.submit("waits")
        running = asyncio.create_task(worker.run())
        await started.wait()
        async with asyncio.timeout(30):
            while not await queue.workers():  # It is told with the first beat, which may come after the first task.
                await asyncio.sleep(0.01)
        shown = (await asyncio.to_thread(terminal, "workers", "--json")).json
        plain = (await asyncio.to_thread(terminal, "workers")).out
        release.set()
        worker.stop()
        await running
    assert (shown["id"], shown["alive"], shown["types"], shown["concurrency"]) == ("w1", True, ["waits"], 3)
    assert [entry["id"] for entry in shown["tasks"]] == [task.id]
    assert "1 of 3" in plain
    assert f"w1 runs {task.id} (waits) since" in plain
    assert "No worker" in (await asyncio.to_thread(terminal, "workers")).out


def test_a_pause_holds_until_it_is_resumed(terminal, queue):
    answer = terminal("pause", "mail", "--reason", "deploy", "--for", "10m", "--json").json
    assert (answer["queue"], answer["reason"], answer["until"][-1]) == ("mail", "deploy", "Z")
    assert queue.paused() == {"mail": "deploy"}
    assert "paused: mail (deploy)" in terminal("stats").out
    assert terminal("resume", "mail").out == "Queue 'mail' goes on.\n"
    assert queue.paused() == {}
    assert terminal("resume", "mail").out == "Queue 'mail' was not paused.\n"
    assert terminal("pause").out == "Queue 'default' is paused.\n"


def test_tail_tells_what_happened_since(terminal, queue, busy):
    events = terminal("tail", "--since", "5m", "--count", "7", "--json").objects
    assert [event["what"] for event in events if event["task_type"] == "greet"] == ["created", "claimed", "completed"]
    assert [event["what"] for event in events if event["task_type"] == "breaks"] == ["created", "claimed", "failed"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    line = terminal("tail", "--since", "5m", "--what", "failed", "--count", "1").out
    assert "breaks  failed by" in line
    assert "-> failed: PermanentError: this is broken" in line
    (mail,) = terminal("tail", "--since", "5m", "--queue", "mail", "--count", "1", "--json").objects
    assert mail["task_type"] == "waits"


def test_tail_is_a_live_stream(terminal, queue):
    old = queue.submit("greet")
    following = terminal.start("tail", "--json", "--count", "3", "--type", "greet")
    # The first event proves that it listens; until then a new task is offered again and again.
    while following.poll() is None:
        queue.cancel(queue.submit("greet").id)
        queue.submit("other")
    events = [json.loads(line) for line in following.communicate(timeout=30)[0].splitlines()]
    assert len(events) == 3
    assert old.id not in {event["task_id"] for event in events}
    assert {event["task_type"] for event in events} == {"greet"}


async def test_following_leaves_no_event_out_and_tells_none_twice():
    queue = Queue(MemoryStore())
    start = await queue.now()
    told = []

    async def listen():
        async for task, event in follow(queue, since=start, poll=0.01):
            told.append((task.id, event.number))
            if len(told) == 3 * 300:
                return

    listening = asyncio.create_task(listen())
    worker = Worker(queue, concurrency=10)

    @worker.task("greet")
    async def greet(input):
        await asyncio.sleep(0)

    for _ in range(3):
        await queue.submit_many([("greet", None)] * 100)
        await worker.run(until_idle=True)
    await asyncio.wait_for(listening, 60)
    assert len(set(told)) == len(told)
    assert {number for _, number in told} == {1, 2, 3}


def test_doctor_finds_a_good_store_good_and_leaves_nothing_behind(terminal, queue):
    answer = terminal.process("doctor")
    for line in ("create if absent: 8 submits", "one claim wins", "compare and swap", "clock", "schema: version"):
        assert f"✓ {line}" in answer.out
    assert not any(queue.counts().values())
    findings = terminal("doctor", "--json").objects
    assert {finding["level"] for finding in findings} == {"ok"}


def test_doctor_names_what_is_wrong_and_what_to_do(terminal, queue):
    queue.submit_many([("waits", number) for number in range(1001)])
    queue.pause("mail", "deploy")
    for number in range(2):
        queue.submit("breaks", number)
    asyncio.run(work_off(terminal.url))
    findings = {finding["name"]: finding for finding in terminal("doctor", "--json", code=1).objects}
    assert findings["workers"]["level"] == "problem"
    assert "none takes 'waits' in queue 'default'" in findings["workers"]["text"]
    assert "tenure worker" in findings["workers"]["fix"]
    assert findings["depth"]["level"] == findings["failures"]["level"] == findings["pauses"]["level"] == "warning"
    plain = terminal("doctor", code=1).out
    assert "✗ workers:" in plain
    assert "! failures:" in plain


class Forgetful(MemoryStore):
    """A store that lets everyone win."""

    async def claim(self, want):
        pending = [task for task in self._tasks.values() if task.status == "pending" and task.type in want.types]
        return Claimed(pending[:1]) if pending else await super().claim(want)

    async def swap(self, changes):
        for change in changes:
            self._put(change.after)
        return [True] * len(changes)


async def test_doctor_catches_a_store_that_breaks_its_promises():
    findings = {finding.name: finding async for finding in examine(Queue(Forgetful()))}
    assert findings["one claim wins"].level == "problem"
    assert findings["compare and swap"].level == "problem"
    assert "do not use this store" in findings["compare and swap"].fix


def test_doctor_on_a_store_that_cannot_be_reached_is_exit_code_3(terminal):
    assert "Cannot open" in terminal("doctor", "--url", "sqlite:////nowhere/at/all.db", code=3).err


def test_a_command_can_be_called_from_a_program(terminal, capsys):
    assert invoke(["stats", "--json", "--url", terminal.url]) == 0
    assert json.loads(capsys.readouterr().out)["workers"] == 0
