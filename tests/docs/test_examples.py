"""The examples run as programs, and print what they promise."""

import os
import subprocess
import sys

import pytest
from pages import ROOT

import tenure.sync

EXAMPLES = ROOT / "examples"


def run(name, folder, *words):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.splitlines()


def test_quickstart_greets_three(folder):
    assert run("quickstart.py", folder) == ["hello Ada", "hello Grace", "hello Edsger"]


def test_app_confirms_each_order_once_for_two_clicks(folder):
    first, *confirmed, attempts = run("app.py", folder)
    assert first == "20 tasks for 40 clicks"
    assert sorted(confirmed) == sorted(
        f"order {number}: confirmed to customer-{number}@example.org" for number in range(20)
    )
    assert int(attempts.split()[0]) >= 20


def test_a_worker_of_the_command_line_does_what_the_requests_submitted(folder):
    assert run("app.py", folder, "requests") == ["20 tasks for 40 clicks"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "tenure", "worker", "app:app"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}{os.pathsep}{EXAMPLES}"},
        stderr=subprocess.PIPE,
    )
    try:
        with tenure.sync.connect("sqlite:///shop.db") as queue:
            for task in queue.list(limit=100).tasks:
                assert "confirmed" in queue.result(task.id, timeout=60)
        worker.terminate()
        _, errors = worker.communicate(timeout=60)
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0, errors


def test_nightly_reports_are_made_once_a_night(folder):
    lines = run("nightly_reports.py", folder)
    assert [line for line in lines if line.startswith("night")] == [
        f"night {night}: 3 scheduled, 0 by the second scheduler" for night in (1, 2, 3)
    ]
    assert sum("report of" in line for line in lines) == 9


def test_ordered_updates_come_in_order(folder):
    first, *accounts = run("ordered_updates.py", folder)
    assert first == "18 attempts for 12 tasks"
    assert accounts == [f"account {account}: open -> deposit -> rename -> close" for account in "789"]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_is_listed(name):
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text()
