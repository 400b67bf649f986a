"""A short form of `make chaos`."""

import json

import pytest
from chaos_account import account

from chaos import Chaos
from tenure import Worker, connect


async def test_nothing_is_lost_or_done_twice_while_workers_are_killed_and_frozen(tmp_path):
    chaos = await Chaos(tmp_path, seconds=4, tasks=1500, workers=3, seed=7).run()
    assert chaos.broken == []
    assert chaos.faults["killed"] > 0
    assert chaos.figures["executions"] > 1000


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
        (tmp_path / "executions").write_text('{"id": "one", "fence": 1}\n{"id": "one", "fen')
        _, broken = await account(queue, [], [tmp_path / "executions"])
        assert broken == ["one: ran with fence 1, which no claim has given it"]
