"""What a signal does to a worker in a process of its own."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from waiting import PATIENCE, until

from tenure import TaskStatus, Worker, connect
from tenure.worker import shutdown
from tenure.worker.heartbeat import Heartbeat
from tenure.worker.signals import listening

PROGRAM = Path(__file__).with_name("worker_program.py")


@asynccontextmanager
async def program(url, grace):
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), url, str(grace), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process, count):
    async with asyncio.timeout(PATIENCE):
        return sorted([(await process.stdout.readline()).decode().strip() for _ in range(count)])


async def rest(process):
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    return out.decode().split("\n")[:-1], process.returncode


@pytest.fixture
async def queue(tmp_path):
    async with connect(f"sqlite:///{tmp_path}/jobs.db") as queue:
        yield queue


@pytest.fixture
def heard():
    """Somebody who listened before any worker did, in both ways there are."""
    told, before = [], signal.getsignal(signal.SIGTERM)
    yield told
    signal.signal(signal.SIGTERM, before)


async def on_the_loop(told):
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.append, "SIGTERM")


async def by_python(told):
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(signal.Signals(number).name))


async def by_leaving(told):
    def leave(number, frame):
        told.append("SIGTERM")
        sys.exit(1)

    signal.signal(signal.SIGTERM, leave)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_what_runs_finish_and_leaves_the_rest(queue, number):
    tasks = [await queue.submit("wait", number) for number in range(3)]
    async with program(queue.url, 3600) as process:
        assert await said(process, 2) == ["running 0", "running 1"]
        process.send_signal(number)
        await queue.submit("door", None, task_id="door 0")
        await queue.submit("door", None, task_id="door 1")
        assert await rest(process) == (["shutdown", "ended 2"], 0)
    statuses = [(await queue.get(task.id)).status for task in tasks]
    assert statuses == [TaskStatus.Completed, TaskStatus.Completed, TaskStatus.Pending]
    assert await queue.workers(gone=True) == []


async def test_a_second_signal_stops_now_and_releases_at_once(queue):
    task = await queue.submit("wait", 0)
    async with program(queue.url, 3600) as process:
        await said(process, 1)
        process.send_signal(signal.SIGTERM)
        # A signal that comes while the same one is pending is merged, so wait until the first was heard.
        line = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
        assert b"SIGTERM: finishing within" in line
        process.send_signal(signal.SIGTERM)
        assert await rest(process) == (["cancelled 0", "shutdown", "ended 1"], 0)
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.lease_expires_at) == (TaskStatus.Pending, 0, None)


async def test_a_thread_that_never_ends_does_not_keep_the_process_alive(queue):
    task = await queue.submit("stuck", None)
    async with program(queue.url, 0.05) as process:
        assert await said(process, 1) == ["stuck"]
        process.send_signal(signal.SIGTERM)
        assert await rest(process) == (["shutdown", "ended 1"], 0)
    assert (await queue.get(task.id)).status is TaskStatus.Pending


async def test_what_exceeds_the_grace_is_cancelled_and_released(queue):
    task = await queue.submit("wait", 0)
    async with program(queue.url, 0.05) as process:
        await said(process, 1)
        process.send_signal(signal.SIGTERM)
        assert await rest(process) == (["cancelled 0", "shutdown", "ended 1"], 0)
    assert (await queue.get(task.id)).status is TaskStatus.Pending


async def test_a_handler_that_does_not_stop_is_left_behind_and_its_task_given_back(queue):
    task = await queue.submit("deaf")
    async with program(queue.url, 0) as process:
        assert await said(process, 1) == ["deaf"]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    assert (out.decode().split(), process.returncode) == (["shutdown", "ended", "1"], 0)
    (line,) = err.decode().splitlines()[1:]
    assert (
        line
        == f"task {task.id}: its handler goes on although it was cancelled; the task is given back and the handler left behind"
    )
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.lease_expires_at) == (TaskStatus.Pending, 0, None)


async def test_what_a_handler_does_that_was_left_behind_changes_nothing(memory, monkeypatch):
    monkeypatch.setattr(shutdown, "LAST_WORDS", 0.01)
    worker, begun, go, handling = Worker(memory, grace=3600), asyncio.Event(), asyncio.Event(), []

    @worker.task("job")
    async def job(input):
        handling.append(asyncio.current_task())
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await go.wait()

    task = await memory.submit("job")
    async with asyncio.timeout(PATIENCE):
        run = asyncio.create_task(worker.run())
        await begun.wait()
        worker.stop()
        worker.stop(now=True)
        assert await run == 1
        # What becomes of it after all changes nothing.
        go.set()
        await asyncio.wait(handling)
    assert [event.what for event in await memory.history(task.id)] == ["created", "claimed", "released"]


@pytest.mark.parametrize("moment", ["start", "stop"])
async def test_a_worker_that_others_can_see_hears_signals(memory, monkeypatch, caplog, heard, moment):
    """From before its first sign of life until after its last; a signal that ends the process would leave the note."""
    await by_python(heard)
    worker = idle_worker(memory)
    act = getattr(Heartbeat, moment)

    def interrupted(heartbeat):
        signal.raise_signal(signal.SIGTERM)
        return act(heartbeat)

    monkeypatch.setattr(Heartbeat, moment, interrupted)
    async with asyncio.timeout(PATIENCE):
        await worker.run(until_idle=moment == "stop")
        await until(lambda: heard == ["SIGTERM"])
    assert any(line.startswith("SIGTERM") for line in caplog.messages) or moment == "stop"
    assert await memory.workers(gone=True) == []


@pytest.mark.parametrize("listen", [on_the_loop, by_python])
async def test_a_signal_that_no_worker_has_heard_is_for_whoever_listens_after_it(memory, monkeypatch, heard, listen):
    """It comes at the very end, when the loop has no turn any more before the worker lets go of the signals."""
    await listen(heard)
    stop = Heartbeat.stop

    async def interrupted(heartbeat):
        await stop(heartbeat)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Heartbeat, "stop", interrupted)
    async with asyncio.timeout(PATIENCE):
        await idle_worker(memory).run(until_idle=True)
        await until(lambda: heard)
        await asyncio.sleep(0)
    assert heard == ["SIGTERM"]


async def test_a_signal_that_comes_while_a_worker_begins_to_listen_is_heard(memory, monkeypatch, heard):
    await by_python(heard)
    loop = asyncio.get_running_loop()
    add = loop.add_signal_handler

    def interrupted(number, *how):
        add(number, *how)
        if number == signal.SIGTERM:
            signal.raise_signal(number)

    monkeypatch.setattr(loop, "add_signal_handler", interrupted)
    async with asyncio.timeout(PATIENCE):
        await idle_worker(memory).run()
        await until(lambda: heard == ["SIGTERM"])


async def test_each_signal_is_told_once(heard):
    await by_python(heard)
    told = []
    with listening(told.append):
        for count in (1, 2):
            signal.raise_signal(signal.SIGTERM)
            await until(lambda count=count: len(heard) == count)
            for _ in range(5):
                await asyncio.sleep(0)
    assert told == heard == ["SIGTERM"] * 2


async def test_a_signal_that_somebody_else_has_taken_over_is_theirs_alone(heard):
    await by_python(heard)
    told, theirs = [], []
    with listening(told.append):
        signal.signal(signal.SIGTERM, lambda number, frame: theirs.append(number))
        signal.raise_signal(signal.SIGTERM)
        for _ in range(5):
            await asyncio.sleep(0)
    assert (told, heard, theirs) == ([], [], [signal.SIGTERM])


async def test_a_worker_that_is_put_back_after_its_end_passes_signals_on(memory, heard):
    """A web server that began after the worker and ends later puts back what it has found."""
    await by_python(heard)
    worker = idle_worker(memory)
    run = asyncio.create_task(worker.run())
    await until(lambda: worker.is_claiming)
    found = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker.stop()
    await run
    signal.signal(signal.SIGTERM, found)
    signal.raise_signal(signal.SIGTERM)
    assert heard == ["SIGTERM"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_put_back_after_its_end_does_not_keep_the_process_from_ending(number):
    program = """
import asyncio, signal, sys
from tenure.worker.signals import listening

async def main(number):
    with listening(print):
        found = signal.signal(number, signal.SIG_IGN)
    signal.signal(number, found)
    signal.raise_signal(number)
    print("still here")

with asyncio.Runner() as runner:
    runner.get_loop().run_until_complete(main(int(sys.argv[1])))
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(int(number)), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert await rest(process) == ([], -number)


def test_whoever_listened_before_goes_on_listening_when_a_loop_is_closed_with_a_worker_on_it(heard):
    async def begin():
        await by_python(heard)
        ears.__enter__()

    ears, loop = listening(print), asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    ears.__exit__(None, None, None)
    signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
    assert heard == ["SIGTERM"]


async def test_a_signal_wakes_the_loop_whichever_thread_gets_it(memory):
    worker = idle_worker(memory)
    run = asyncio.create_task(worker.run())
    await until(lambda: worker.is_claiming)
    wakes = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakes)
    worker.stop()
    await run
    assert wakes != -1
    assert signal.set_wakeup_fd(-1) == -1


def idle_worker(queue):
    worker = Worker(queue)
    worker.task("job")(lambda _: None)
    return worker


async def test_every_worker_of_a_process_hears_a_signal(memory):
    workers = [idle_worker(memory) for _ in range(3)]
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    await until(lambda: all(worker.is_claiming for worker in workers))
    workers[0].stop()
    async with asyncio.timeout(PATIENCE):
        await runs[0]
        signal.raise_signal(signal.SIGTERM)
        await asyncio.gather(*runs)


@pytest.mark.parametrize("listen", [on_the_loop, by_python, by_leaving])
async def test_whoever_listened_before_is_told_with_the_worker(memory, heard, listen):
    await listen(heard)
    worker = idle_worker(memory)
    run = asyncio.create_task(worker.run())
    await until(lambda: worker.is_claiming)
    async with asyncio.timeout(PATIENCE):
        signal.raise_signal(signal.SIGTERM)
        await run
        await until(lambda: heard == ["SIGTERM"])


@pytest.mark.parametrize("listen", [on_the_loop, by_python])
async def test_whoever_listened_before_goes_on_listening_after_a_worker(memory, heard, listen):
    await listen(heard)
    await idle_worker(memory).run(until_idle=True)
    signal.raise_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        await until(lambda: heard == ["SIGTERM"])
