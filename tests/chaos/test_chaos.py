"""A short form of `make chaos`."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from chaos_account import account, out_of_order
from chaos_places import PLACES
from chaos_stuck import why

from chaos import Chaos
from tenure import Worker, connect
from tenure.testing import FakeClock


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_is_lost_or_done_twice_whatever_happens(tmp_path, place):
    chaos = await Chaos(tmp_path, PLACES[place](tmp_path), seconds=3, tasks=400, workers=3, seed=7).run()
    assert chaos.broken == [], "\n".join(chaos.why)
    assert chaos.faults.total() > 2
    # A producer that dies, or waits in vain, after its task was stored and before it was told submits a second one.
    assert chaos.figures["tasks"] >= chaos.figures["tasks acknowledged"] == int(400 * PLACES[place].pace)
    assert chaos.figures["executions"] >= chaos.figures["  completed"] > 0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"id": "nobody", "created": True}, "nobody: was acknowledged and is lost"),
        ({"id": "one", "created": True, "due": "2999-01-01T00:00:00+00:00"}, "before it was due"),
        ({"id": "two", "created": True, "key": "k"}, "key 'k': stands for 2 tasks"),
        ({"id": "one", "created": True, "key": "k"}, "key 'k': was created 2 times"),
    ],
)
async def test_the_account_sees_a_promise_that_was_not_kept(tmp_path, line, sentence):
    async with connect("memory://") as queue:
        worker = Worker(queue)

        @worker.task("job")
        async def job(input): ...

        for name in ("one", "two"):
            await queue.submit("job", None, task_id=name)
        await worker.run(until_idle=True)
        nothing = {"due": None, "key": None, "chosen": None}
        lines = [{**nothing, "id": "one", "created": True, "key": "k"}, {**nothing, **line}]
        (tmp_path / "acknowledged").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        _, broken = await account(queue, [tmp_path / "acknowledged"], [])
        assert any(sentence in each for each in broken), broken


async def test_the_account_sees_an_execution_that_no_claim_allowed(tmp_path):
    async with connect("memory://") as queue:
        await queue.submit("job", None, task_id="one", ttl=0)
        await queue.mark_expired("one")
        begun = '{"what": "begun", "id": "one", "fence": 1, "at": 1.0}'
        (tmp_path / "executions").write_text(f"{begun}\n{begun[:20]}")
        _, broken = await account(queue, [], [tmp_path / "executions"])
        assert broken == ["one: ran with fence 1, which no claim has given it"]


async def test_the_account_sees_by_the_machines_clock_that_an_order_was_not_kept():
    async with connect("memory://") as queue:
        worker = Worker(queue)

        @worker.task("job")
        async def job(input): ...

        tasks = [await queue.submit("job", ordering_key="k") for _ in range(2)]
        await worker.run(until_idle=True)
        one, other = [await queue.get(task.id) for task in tasks]
        lines = [
            {"what": "begun", "id": one.id, "fence": 1, "at": 1.0},
            {"what": "returned", "id": one.id, "fence": 1, "at": 2.0},
            {"what": "begun", "id": other.id, "fence": 1, "at": 1.5},
        ]
        (sentence,) = out_of_order([one, other], [one.id, other.id], lines)
        assert "began 0.500 s before" in sentence
        lines[2]["at"] = 2.5
        assert list(out_of_order([one, other], [one.id, other.id], lines)) == []


STUCK = """
import asyncio
from chaos_stuck import answer_when_asked

async def wait_for_what_never_comes():
    answer_when_asked()
    print("waiting", flush=True)
    await asyncio.Event().wait()

asyncio.run(wait_for_what_never_comes())
"""


async def test_a_run_that_is_stuck_tells_what_its_tasks_wait_for_and_where_its_processes_are(tmp_path):
    log = tmp_path / "worker-1.log"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STUCK, cwd=Path(__file__).parent, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    try:
        await process.stdout.readline()
        async with connect("memory://", clock=FakeClock()) as queue:
            await queue.submit("job", delay=100, task_id="one")
            told = "\n".join(await why(queue, {log: process}))
    finally:
        process.kill()
        await process.wait()
    assert "1 open tasks" in told
    assert "one job pending, due in 100.000 s" in told
    assert "s created" in told
    assert "in wait_for_what_never_comes" in told
