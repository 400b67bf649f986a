"""More shards: only what must move moves, nothing is lost, keys are still recognised."""

import asyncio
import contextlib
import io
import itertools

import pytest
from shard_steps import counted, work_off

from tenure import connect
from tenure.cli.program import invoke
from tenure.errors import StoreUnusable
from tenure.growth import is_growth
from tenure.stores.sharded.placing import Places
from tenure.task import TaskStatus
from tenure.testing.checker import check
from tenure.testing.conformance.steps import brought_to, claim, everything, ids

KEYED = 40


async def tenure(*words):
    """Run the command line: its exit code and what it said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = await asyncio.to_thread(invoke, list(words))
    return code, said.getvalue()


def mixes():
    """Options of all kinds, each with a key, an id and an ordering key of its own."""
    names = ("idempotency_key", "task_id", "ordering_key")
    for number, chosen in zip(range(KEYED), itertools.cycle(_subsets(names)), strict=False):
        yield {name: f"{name}-{number}" for name in chosen}


def _subsets(names):
    return [chosen for size in range(4) for chosen in itertools.combinations(names, size)]


async def filled(address):
    """A queue with a bit of everything; the tasks that are open, and those that have ended, by options."""
    async with connect(address) as queue:
        ended = []
        for number, options in enumerate(mixes()):
            status = ("completed", "failed", "cancelled", "expired")[number % 4]
            named = {name: f"ended-{value}" for name, value in options.items()}
            ended.append((named, await brought_to(queue, status, "ended", **named)))
        pruned = await brought_to(queue, "archived", "pruned", idempotency_key="pruned", ordering_key="gone")
        await queue.purge(pruned.id)
        tasks = await queue.submit_many([("greet", number, options) for number, options in enumerate(mixes())])
        tasks += await queue.submit_many([("greet", number) for number in range(100)], priority=3)
        line = await queue.submit_many([("line", number) for number in range(20)], ordering_key="line")
        return tasks, line, ended, pruned


async def settled(url, tasks, line, ended, pruned):
    """Everything is there once, is kept where it belongs, and is recognised."""
    async with connect(url) as queue:
        store = queue.store
        stored = await everything(store)
        assert sorted(ids(stored)) == sorted(ids([*tasks, *line, *(task for _, task in ended)]))
        assert check(stored) == []
        for shard in store.shards:
            assert all(store.places.of_task(task) == shard.number for task in await everything(shard))
        for number, options in enumerate(mixes()):
            if options.get("idempotency_key") or options.get("task_id"):
                again = await queue.submit("greet", number, **options)
                assert (again.id, again.created) == (tasks[number].id, False)
        for options, task in ended:
            for name, value in options.items():
                if name != "ordering_key":
                    again = await queue.submit("ended", {"for": str(task.status)}, **{name: value})
                    assert (again.id, again.status, again.created) == (task.id, task.status, False)
        again = await queue.submit("pruned", {"for": "archived"}, idempotency_key="pruned")
        assert (again.id, again.created) == (pruned.id, False)
        assert len(await everything(store)) == len(stored)


@pytest.mark.parametrize("before", [1, 2, 3])
async def test_one_more_shard_takes_only_what_it_will_keep(files, before):
    old, new = files[:before], files[: before + 1]
    made = await filled(old)
    async with connect(old) as queue:
        moves = [task for task in await everything(queue.store) if Places(before + 1).of_task(task) == before]
        total = sum((await queue.counts()).values())
    assert 0 < len(moves) < total
    code, said = await tenure("copy", " ".join(old), " ".join(new))
    assert (code, f"{len(moves)} tasks" in said) == (0, True), said
    await settled(new, *made)
    async with connect(new) as queue:
        assert (await counted(queue.store))[before] == len(moves)
        assert await claim(queue.store, 10) == [], "paused until the operator resumes"
        for name in await queue.paused():
            await queue.resume(name)
        ran = await work_off(queue, "greet", "line")
        assert all(ran.values())
        assert sum(ran.values()) == len(made[0]) + len(made[1])
        lines = [task for task in await everything(queue.store) if task.type == "line"]
        in_turn = sorted(lines, key=lambda task: task.started_at)
        assert [task.input for task in in_turn] == list(range(20))


async def test_growing_again_changes_nothing_and_an_old_address_is_refused(files):
    made = await filled(files[:2])
    assert (await tenure("copy", " ".join(files[:2]), " ".join(files[:3])))[0] == 0
    with pytest.raises(StoreUnusable, match="one of 3 shards"):
        await connect(files[:2])
    assert (await tenure("copy", " ".join(files[:3]), " ".join(files)))[0] == 0
    await settled(files, *made)


async def test_an_interrupted_growth_is_made_again(files, monkeypatch):
    from tenure import growth

    made = await filled(files[:2])
    honest = growth._take_away
    calls = itertools.count()

    async def dies(shard, store):
        if next(calls) == 1:
            raise KeyboardInterrupt
        await honest(shard, store)

    monkeypatch.setattr(growth, "_take_away", dies)
    assert (await tenure("copy", " ".join(files[:2]), " ".join(files[:3])))[0] != 0
    with pytest.raises(StoreUnusable, match="one of 2 shards"):
        await connect(files[:3])
    monkeypatch.setattr(growth, "_take_away", honest)
    assert (await tenure("copy", " ".join(files[:2]), " ".join(files[:3])))[0] == 0
    await settled(files[:3], *made)


async def test_what_runs_is_waited_for_and_then_left_behind_with_the_old_number_of_shards(files):
    async with connect(files[:2]) as queue:
        await queue.submit_many([("greet", number) for number in range(40)])
        held = await claim(queue.store, 40)
        code, said = await tenure("copy", " ".join(files[:2]), " ".join(files[:3]), "--wait", "0")
        assert code == 1
        assert f"left behind, because it is running: {held[0].id}" in said
        assert "Make the copy again" in said
        assert (await queue.counts())[TaskStatus.Running] == 40


async def test_a_sharded_queue_is_copied_to_any_other_store(files):
    tasks, line, ended, _ = await filled(files[:3])
    assert (await tenure("copy", " ".join(files[:3]), files[3]))[0] == 0
    async with connect(files[3]) as queue:
        assert sorted(ids(await everything(queue.store))) == sorted(ids([*tasks, *line, *(task for _, task in ended)]))
        keyed = next(number for number, options in enumerate(mixes()) if len(options) == 3)
        again = await queue.submit("greet", keyed, **list(mixes())[keyed])
        assert again.created is False
        latest = [task.input for task in (await queue.list(type="line", limit=20)).tasks]
        assert latest == list(range(19, -1, -1))


def test_only_more_of_the_same_stores_is_growth():
    assert is_growth("sqlite:///a.db", "sqlite:///a.db sqlite:///b.db")
    assert not is_growth("sqlite:///a.db", "sqlite:///b.db sqlite:///a.db")
    assert not is_growth("sqlite:///a.db sqlite:///b.db", "sqlite:///a.db")
    assert not is_growth("sqlite:///a.db", "sqlite:///a.db")
