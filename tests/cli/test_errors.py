"""What goes wrong is said in a line or two, with what to do, and with a code that scripts can use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_without_words_the_commands_are_shown(terminal):
    shown = terminal.process().out
    assert shown.startswith("Usage: tenure")
    assert "submit" in shown
    assert terminal("dlq").out.startswith("Usage: tenure dlq")


def test_the_version_is_printed(terminal):
    assert terminal.process("--version").out.startswith("tenure 0.")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["lists"], "No such command 'lists'"),
        (["list", "--stat", "x"], "No such option: --stat"),
        (["list", "--limit", "many"], "--limit"),
        (["status"], "Missing argument 'ID'"),
        (["demo", "--tasks", "1"], "--tasks"),
        (["--url", "mysql://x", "list"], "'mysql' is no kind of store"),
        (["list", "--url", "sqlite:///x.db?mode=fast"], "Unknown option 'mode'"),
    ],
)
def test_wrong_usage_is_exit_code_2(terminal, words, error):
    answer = terminal(*words, code=2)
    assert answer.err.startswith("error: ")
    assert error in answer.err
    assert len(answer.err.splitlines()) <= 2
    assert answer.out == ""


@pytest.mark.parametrize(
    "command", [["list"], ["submit", "-t", "greet"], ["stats"], ["worker", "shop:app"], ["doctor"]]
)
@pytest.mark.parametrize("kind", ["missing folder", "no database"])
def test_a_store_that_cannot_be_used_is_exit_code_3(terminal, command, kind):
    (terminal.folder / "notes.txt").write_text("just text " * 100)
    url, error = {
        "missing folder": ("sqlite:////nowhere/jobs.db", "the folder /nowhere does not exist"),
        "no database": ("sqlite:///notes.txt", "is not an SQLite database"),
    }[kind]
    run = terminal.process if command[0] == "worker" else terminal
    answer = run(*command, "--url", url, code=3)
    assert error in answer.err
    assert "Traceback" not in answer.err


def test_verbose_shows_the_traceback(terminal):
    assert "Traceback" not in terminal("status", "nobody", code=1).err
    error = terminal("status", "nobody", "--verbose", code=1).err
    assert "Traceback (most recent call last)" in error
    assert error.splitlines()[-1].startswith("error: No task 'nobody'")


def test_an_error_in_json_is_one_object_on_the_error_stream(terminal):
    answer = terminal("status", "nobody", "--json", code=1)
    assert answer.out == ""
    error = json.loads(answer.err)["error"]
    assert (error["kind"], error["exit_code"]) == ("TaskNotFound", 1)
    assert error["message"].startswith("No task 'nobody'")


def test_the_common_options_stand_before_or_after_the_command(terminal):
    terminal("--url", "sqlite:///x.db", "submit", "-t", "greet")
    assert len(terminal("--json", "list", "--url", "sqlite:///x.db").objects) == 1
    assert len(terminal("--url", "sqlite:///nothing.db", "list", "--json", "--url", "sqlite:///x.db").objects) == 1


def test_a_reader_that_leaves_early_is_no_error(terminal, queue):
    queue.submit_many([("greet", "x" * 1000)] * 500)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "tenure", "list", "--limit", "500", "--json"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=terminal.folder, env=terminal.environment, check=False)  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_loads_nothing_that_it_does_not_need(terminal):
    code = (
        "import sys; sys.argv = ['tenure', '--help']\n"
        "import tenure.cli\n"
        "try: tenure.cli.main()\n"
        "except SystemExit: print(sorted({'asyncio', 'msgspec', 'pydantic', 'rich', 'sqlite3', 'tenure.queue'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=terminal.environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["list", "--limit", "9" * 23], "limit=99999999999999999999999 is too many"),
        (["list", "--cursor", f"[{'9' * 26}]"], "is no cursor of this listing"),
        (["list", "--type", "caf\udce9"], r"type='caf\udce9' is not valid Unicode"),
        (["status", "caf\udce9"], r"task_id='caf\udce9' is not valid Unicode"),
        (["cancel", "caf\udce9"], r"task_id='caf\udce9' is not valid Unicode"),
        (["status", ""], "task_id is empty"),
        (["submit", "-t", "greet", "--timeout", "0"], "timeout=0:00:00 would end every attempt"),
    ],
)
def test_what_somebody_typed_wrong_is_no_defect(terminal, words, error):
    code = 1 if words[0] == "cancel" else 2
    answer = terminal(*words, code=code)
    assert error in answer.err
    assert "Traceback" not in answer.err
    assert "defect" not in answer.err


def full(terminal, *words):
    """Run with the output on a disk that is full."""
    with Path("/dev/full").open("wb") as disk:
        command = [sys.executable, "-m", "tenure", *words]
        return subprocess.run(command, stdout=disk, stderr=subprocess.PIPE, text=True, cwd=terminal.folder, env=terminal.environment, check=False)  # fmt: skip


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["stats"], ["export", "-"], ["--version"]])
def test_a_full_disk_is_named(terminal, queue, words):
    queue.submit("greet", "x" * 100_000)
    done = full(terminal, *words)
    assert done.returncode == 1
    assert "The output cannot be read or written: No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_export_to_a_place_that_is_not_there_or_full_is_named(terminal, queue):
    queue.submit("greet", "x" * 100_000)
    assert "'/nowhere/x' cannot be read or written: No such file" in terminal("export", "/nowhere/x", code=1).err
    error = terminal.process("export", "/dev/full", "--force", code=1).err
    assert "No space left on device" in error
    assert "defect" not in error


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_output_is_no_error(terminal, queue, closed):
    queue.submit("greet")
    command = f"exec {sys.executable} -m tenure list {closed}>&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, cwd=terminal.folder, env=terminal.environment, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("factory", "error"),
    [
        ("def make():\n    raise ValueError('no settings')\n", "mine.py, line 2: ValueError: no settings"),
        ("async def make():\n    raise OSError('no settings')\n", "mine.py, line 2: OSError: no settings"),
        ("def make(settings):\n    pass\n", "TypeError: make() missing 1 required positional argument"),
    ],
)
def test_a_factory_that_fails_is_named_with_its_place(terminal, factory, error):
    (terminal.folder / "mine.py").write_text(factory)
    answer = terminal.process("worker", "mine:make", code=2)
    assert answer.err.startswith("error: mine:make failed")
    assert error in answer.err
    assert "Traceback" not in answer.err
    assert "Traceback" in terminal.process("worker", "mine:make", "--verbose", code=2).err
