"""`tenure worker` with metrics, log formats and health, as real processes."""

import asyncio
import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request

import pexpect
import pytest
from prometheus_client import CollectorRegistry

from tenure import Worker, connect
from tenure.cli.observing import Shown, watched
from tenure.observe.prometheus import Prometheus
from tenure.testing.ports import free_port

from .test_worker import finish, start, until  # noqa: F401 - a fixture among them


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def sample(text, name, **labels):
    """The value of a metric, added up over the labels that are not given."""
    found = 0.0
    for line in text.splitlines():
        if (match := re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)) and all(
            f'{label}="{value}"' in (match[1] or "") for label, value in labels.items()
        ):
            found += float(match[2])
    return found


def test_a_worker_serves_its_metrics_and_its_health(queue, start):  # noqa: F811
    port = free_port()
    process = start("worker", "shop:app", "--metrics-port", f"127.0.0.1:{port}")
    until(lambda: get(port, "/readyz")[0] == 200)
    queue.submit_many([("greet", {"name": number}) for number in range(20)])
    queue.submit("fails", {}, max_attempts=2)
    until(lambda: sample(get(port, "/metrics")[1], "tenure_tasks_dead_total") == 1)
    text = until(
        lambda: (text := get(port, "/metrics")[1]) and sample(text, "tenure_tasks_completed_total") == 20 and text
    )
    assert sample(text, "tenure_tasks_failed_total", task_type="fails", reason="error") == 2
    assert sample(text, "tenure_task_duration_seconds_count", task_type="greet") == 20
    assert sample(text, "tenure_store_requests_total", operation="claim") > 0
    assert get(port, "/livez") == (200, "ok\n")
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert (code, f"metrics and health on port {port}" in err) == (0, True)


def test_the_processes_of_a_supervisor_are_counted_as_one_even_when_one_is_killed(queue, start, tmp_path):  # noqa: F811
    port, folder = free_port(), tmp_path / "counted"
    folder.mkdir()
    words = ("--processes", "2", "--concurrency", "2", "--metrics-port", f"127.0.0.1:{port}")
    supervisor = start("worker", "shop:app", *words, PROMETHEUS_MULTIPROC_DIR=str(folder))
    until(lambda: get(port, "/readyz")[0] == 200)
    done = 0

    def work(count):
        nonlocal done
        done += count
        queue.submit_many([("greet", {"name": number}) for number in range(count)])
        until(lambda: sample(get(port, "/metrics")[1], "tenure_tasks_completed_total", task_type="greet") == done)

    work(200)
    first, second = sorted(info.pid for info in queue.workers())
    os.kill(first, signal.SIGKILL)
    until(lambda: len({info.pid for info in queue.workers()} - {first}) == 2)
    until(lambda: not list(folder.glob(f"*{first}*")))
    work(200)
    until(lambda: get(port, "/readyz")[0] == 200)
    assert get(port, "/livez") == (200, "ok\n")
    text = get(port, "/metrics")[1]
    assert sample(text, "tenure_queue_depth", queue="default", status="pending") == 0
    assert "pid=" not in text
    os.kill(second, signal.SIGSTOP)
    os.kill(second, signal.SIGCONT)
    supervisor.send_signal(signal.SIGTERM)
    assert finish(supervisor)[0] == 0


def test_log_lines_are_json_on_the_error_stream_if_asked(terminal, queue):
    task = queue.submit("greet", {"name": "Ada"})
    answer = terminal.process("worker", "shop:app", "--burst", "--log-format", "json", "--log-level", "debug")
    lines = [json.loads(line) for line in answer.err.splitlines()]
    about = [(line["what"], line["attempt"]) for line in lines if line.get("task_id") == task.id]
    assert about == [("claimed", 1), ("completed", 1)]
    assert answer.out == ""


TALKS = """
from tenure import Tenure

app = Tenure(retry=None)

@app.task("talks")
async def talks(input, context):
    context.logger.info("one\\nERROR two \\x1b[2J :fire:")
    context.logger.info("%d", "no number")
    try:
        raise ValueError("three \\x1b[2J")
    except ValueError:
        context.logger.exception("it broke")
"""


@pytest.mark.parametrize("where", ["in a pipe", "at a terminal"])
def test_what_a_handler_says_is_one_line_with_its_task_and_moves_no_cursor(terminal, queue, where):
    (terminal.folder / "talks.py").write_text(TALKS)
    task = queue.submit("talks")
    if where == "in a pipe":
        shown = terminal.process("worker", "talks:app", "--burst").err
    else:
        screen = terminal.screen("worker", "talks:app", "--burst", size=(50, 60))
        screen.expect(pexpect.EOF)
        shown = screen.before.replace("\r\n", "\n")
    assert rf"one\nERROR two \x1b[2J :fire: [talks {task.id} attempt 1]" in shown
    assert f"it broke [talks {task.id} attempt 1]" in shown
    assert "\nValueError: three \\x1b[2J" in re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "\x1b[2J" not in shown
    assert queue.get(task.id).status == "completed"


def test_a_level_hides_what_is_below_it(terminal, queue):
    queue.submit("greet", {})
    queue.submit("fails", {}, max_attempts=1)
    err = terminal.process("worker", "shop:app", "--burst", "--log-level", "error").err
    (line,) = err.splitlines()
    assert "ERROR task " in line


def test_the_settings_file_can_say_it_too(terminal, queue):
    queue.submit("greet", {})
    settings = terminal.folder / "tenure.toml"
    settings.write_text('app = "shop:app"\nlog_format = "json"\nmetrics_port = 0\nprocesses = 2\n')
    err = terminal.process("worker", "--burst").err
    assert any(json.loads(line).get("what") == "completed" for line in err.splitlines())
    settings.write_text('app = "shop:app"\nlog_format = "yaml"\n')
    assert "log_format" in terminal.process("worker", "--burst", code=2).err
    settings.write_text('app = "shop:app"\ntrace = 3\n')
    assert "trace must be of type bool" in terminal.process("worker", "--burst", code=2).err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--metrics-port", "http"), "'http' is no port for metrics"),
        (("--sentry",), "--sentry: there is no address to report to. Set $SENTRY_DSN"),
        (("--log-format", "yaml"), "text"),
    ],
)
def test_what_cannot_be_observed_is_an_error_that_helps(terminal, words, error):
    answer = terminal.process("worker", "shop:app", "--burst", *words, code=2)
    assert error in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("words", "environment", "error"),
    [
        (("--sentry",), {"SENTRY_DSN": "foo"}, "--sentry: $SENTRY_DSN is no address to report to"),
        (("--metrics-port", "0"), {"PROMETHEUS_MULTIPROC_DIR": "/nowhere"}, "'/nowhere', and that is no folder"),
    ],
)
def test_an_environment_that_cannot_be_used_is_an_error_that_helps(terminal, words, environment, error, processes):
    answer = terminal.process("worker", "shop:app", "--processes", processes, *words, code=2, **environment)
    assert error in answer.err
    assert "Traceback" not in answer.err


def test_a_process_that_ends_by_a_signal_without_a_name_is_replaced(queue, start):  # noqa: F811
    supervisor = start("worker", "shop:app", "--processes", "1", "--reload")
    (first,) = until(lambda: {info.pid for info in queue.workers()})
    os.kill(first, 40)
    until(lambda: {info.pid for info in queue.workers()} - {first})
    supervisor.send_signal(signal.SIGTERM)
    code, _, err = finish(supervisor)
    assert (code, "was ended by signal 40" in err) == (0, True)


def test_traces_and_reports_are_on_if_asked(terminal, queue):
    queue.submit("greet", {})
    terminal.process(
        "worker", "shop:app", "--burst", "--trace", "--sentry", SENTRY_DSN="http://key@127.0.0.1:9/1"
    )  # fmt: skip
    assert queue.counts()["completed"] == 1


def test_a_trace_that_goes_nowhere_is_told(terminal):
    assert (
        "--trace: nobody has set up where spans go" in terminal.process("worker", "shop:app", "--burst", "--trace").err
    )


def test_systemd_is_told_by_the_worker_or_by_its_supervisor(terminal, queue, start, tmp_path):  # noqa: F811
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        for processes in ("1", "2"):
            process = start("worker", "shop:app", "--processes", processes, NOTIFY_SOCKET=str(tmp_path / "notify"))
            while b"READY=1" not in manager.recv(1000):
                pass
            while manager.recv(1000) != b"WATCHDOG=1":
                pass
            process.send_signal(signal.SIGTERM)
            while manager.recv(1000) != b"STOPPING=1":
                pass
            assert finish(process)[0] == 0


async def test_an_application_s_own_registry_is_what_a_worker_serves():
    own = Prometheus(CollectorRegistry())
    async with connect("memory://") as queue:
        worker = Worker(queue.observe(own))
        worker.task("greet")(lambda _: None)
        port = free_port()
        async with watched(worker, Shown(metrics=f"127.0.0.1:{port}"), supervised=False):
            await queue.submit("greet")
            await worker.run(until_idle=True)
            _, text = await asyncio.to_thread(get, port, "/metrics")
    assert sample(text, "tenure_tasks_completed_total") == 1
