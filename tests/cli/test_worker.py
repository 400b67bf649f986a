"""`tenure worker`, as real processes."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tenure import TaskStatus


def until(done, patience=30.0):
    """Look again and again; how long that takes is no part of any promise."""
    deadline = time.monotonic() + patience
    while not (answer := done()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return answer


@pytest.fixture
def start(terminal):
    """Start commands that are ended with the test, whatever happens."""
    started = []

    def start(*words, **environment):
        started.append(terminal.start(*words, **environment))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process, timeout=30):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def children_of(pid):
    """The processes that a process started, as Linux lists them."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_burst_runs_what_is_due_and_ends(terminal, queue):
    tasks = queue.submit_many([("greet", {"name": number}) for number in range(20)])
    later = queue.submit("greet", {}, delay=3600)
    answer = terminal.process("worker", "shop:app", "--burst")
    assert "stopped after 20 tasks" in answer.err
    assert [queue.get(task.id).output for task in tasks[:2]] == ["hello 0", "hello 1"]
    assert queue.get(later.id).status is TaskStatus.Pending


def test_the_timers_of_handlers_are_on_time(terminal, queue):
    task = queue.submit("loops", {})
    terminal.process("worker", "shop:app", "--burst")
    assert queue.get(task.id).output == "tenure.punctual"


@pytest.mark.parametrize("target", ["shop:application", "shop:worker", "shop"])
def test_the_target_may_be_a_function_or_the_only_application_of_a_module(terminal, queue, target):
    task = queue.submit("greet", {"name": "Ada"})
    terminal.process("worker", target, "--burst", TENURE_URL=terminal.url)
    assert queue.get(task.id).output == "hello Ada"


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("nowhere:app", "There is no module 'nowhere' in "),
        ("shop.deeper:app", "There is no module 'shop.deeper'"),
        ("shop:nothing", "'shop' has no 'nothing'. Found there: shop:app."),
        ("shop:number", "shop:number is of type int, not a Tenure application or a Worker"),
        ("shop:greet", "is of type TaskFunction"),
        ("shop.py", "is no module path. Write MODULE:OBJECT"),
        ("./shop:app", "is no module path"),
        ("broken:app", "The module 'broken' cannot be imported: ZeroDivisionError"),
        ("needy:app", "The module 'needy' imports 'not_installed', which is not installed"),
    ],
)
def test_a_wrong_target_is_a_usage_error_that_helps(terminal, target, error):
    (terminal.folder / "broken.py").write_text("1 / 0\n")
    (terminal.folder / "needy.py").write_text("import not_installed\n")
    answer = terminal.process("worker", target, code=2)
    assert error in answer.err
    assert "Traceback" not in answer.err


def test_a_worker_without_a_target_says_how_to_name_one(terminal):
    assert "tenure worker MODULE:OBJECT" in terminal("worker", code=2).err


def test_settings_of_the_file_reach_the_worker(terminal, queue):
    (terminal.folder / "tenure.toml").write_text('app = "shop:app"\nqueues = ["mail"]\nconcurrency = 3\n')
    here, there = queue.submit("greet", {}), queue.submit("greet", {}, queue="mail")
    lines = terminal.process("worker", "--burst", "--json").objects
    assert lines[0]["message"].endswith("from mail")
    assert lines[-1]["ended"] == 1
    assert [queue.get(task.id).status.value for task in (here, there)] == ["pending", "completed"]


def test_a_list_of_queues_that_names_none_is_refused(terminal):
    assert "--queues ',' names no queue" in terminal("worker", "shop:app", "--queues", ",", code=2).err


def test_options_stand_before_the_application_s_own(terminal, queue, start):
    queue.submit("lasts", {"seconds": 600}, queue="mail")
    process = start(
        "worker", "shop:app", "--queues", "mail, other,", "--concurrency", "7", "--lease", "90s", "--grace", "0s"
    )
    task = until(lambda: queue.list("running").tasks)[0]
    assert 80 < (task.lease_expires_at - task.started_at).total_seconds() <= 91
    (info,) = until(queue.workers)
    assert (info.queues, info.concurrency) == (["mail", "other"], 7)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    assert queue.get(task.id).status is TaskStatus.Pending


def test_a_signal_lets_running_tasks_finish_within_the_grace(queue, start):
    task = queue.submit("lasts", {"seconds": 5})
    process = start("worker", "shop:app", "--grace", "30s")
    until(lambda: queue.list("running").tasks)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 0
    assert "SIGINT: finishing within 30 s" in err
    assert queue.get(task.id).status is TaskStatus.Completed


def test_a_handler_that_is_stuck_on_a_thread_does_not_keep_the_process(queue, start):
    task = queue.submit("hangs", {})
    process = start("worker", "shop:app", "--grace", "0s")
    until(lambda: queue.list("running").tasks)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    assert queue.get(task.id).status is TaskStatus.Pending


def test_a_dead_process_is_replaced_and_a_signal_ends_them_all(queue, start):
    supervisor = start("worker", "shop:app", "--processes", "2", "--concurrency", "1")
    until(lambda: len(queue.workers()) == 2)
    first, second = sorted(info.pid for info in queue.workers())
    assert {first, second} == set(children_of(supervisor.pid))
    os.kill(first, signal.SIGKILL)
    until(lambda: len(set(children_of(supervisor.pid)) - {first, second}) == 1)
    until(lambda: len({info.pid for info in queue.workers()} - {first, second}) == 1)
    supervisor.send_signal(signal.SIGTERM)
    code, _, err = finish(supervisor)
    assert code == 0
    assert f"worker process {first} was ended by SIGKILL; starting another" in err
    assert [info.pid for info in queue.workers() if info.pid != first] == [], err


def test_several_processes_share_a_burst(terminal, queue):
    queue.submit_many([("greet", {"name": number}) for number in range(50)])
    terminal.process("worker", "shop:app", "--processes", "2", "--burst")
    assert queue.counts()[TaskStatus.Completed] == 50


def test_a_wrong_target_ends_a_supervisor_at_once(terminal):
    assert "There is no module" in terminal.process("worker", "nowhere:app", "--processes", "2", code=2).err
    assert "There is no module" in terminal.process("worker", "nowhere:app", "--reload", code=2).err


def test_workers_whose_supervisor_was_killed_stop_by_themselves(queue, start):
    supervisor = start("worker", "shop:app", "--processes", "2")
    until(lambda: len(queue.workers()) == 2)
    pids = [info.pid for info in queue.workers()]
    supervisor.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_changed_file_restarts_the_workers(terminal, queue, start):
    supervisor = start("worker", "shop:app", "--reload")
    (before,) = until(queue.workers)
    with (terminal.folder / "shop.py").open("a") as file:
        file.write("\n\n@app.task\nasync def brand_new(input: dict) -> str:\n    return 'new'\n")
    task = queue.submit("brand_new", {})
    until(lambda: queue.get(task.id).status is TaskStatus.Completed)
    (after,) = until(lambda: [info for info in queue.workers() if info.pid != before.pid])
    assert "brand_new" in after.types
    supervisor.send_signal(signal.SIGTERM)
    code, _, err = finish(supervisor)
    assert (code, "shop.py changed; restarting" in err) == (0, True)


def test_log_lines_as_json_say_which_task(terminal, queue):
    task = queue.submit("fails", {}, max_attempts=1)
    lines = [json.loads(line) for line in terminal.process("worker", "shop:app", "--burst", "--json").out.splitlines()]
    failed = next(line for line in lines if line.get("level") == "error")
    assert task.id in failed["message"]
    assert (failed["task_id"], failed["task_type"], failed["attempt"]) == (task.id, "fails", 1)
    assert failed["logger"] == "tenure.events"
