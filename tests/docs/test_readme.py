"""The README works as pasted: its programs as programs, its commands as commands."""

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib

import pytest
from pages import ROOT, blocks, check_printed

import tenure.sync

README = ROOT / "README.md"
BLOCKS = blocks(README)
COMMANDS = [shlex.split(line) for block in BLOCKS if block.language == "sh" for line in block.text.splitlines()]
PROGRAMS = {"python": [sys.executable], "tenure": [sys.executable, "-m", "tenure"]}


def run(words, **options):
    command = [*PROGRAMS[words[0]], *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **options).stdout


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=lambda block: block.line
)
def test_each_program_runs_as_pasted(block, folder):
    (folder / "pasted.py").write_text(block.text)
    check_printed(block, run(["python", "pasted.py"]))


def test_the_commands_run_in_their_order(folder):
    for block in BLOCKS:
        if block.file:
            (folder / block.file).write_text(block.text)
    seen = {}
    for words in COMMANDS:
        if words[0] in PROGRAMS:
            seen[tuple(words[:2])] = run_worker(words) if words[1] == "worker" else run(words)
    assert "send_reminder" in seen["tenure", "list"]
    assert "completed" in seen["tenure", "stats"]


def run_worker(words):
    """A worker goes on until it is stopped: here, when its task has ended."""
    process = subprocess.Popen(
        [*PROGRAMS[words[0]], *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        task = json.loads(run(["tenure", "list", "--json"]))
        with tenure.sync.connect() as queue:
            assert queue.result(task["id"], timeout=60) == "told user 42: stand up"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return out


def test_every_other_command_is_a_target_of_make_or_installs_this_package():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    others = [words for words in COMMANDS if words[0] not in PROGRAMS]
    assert others
    for words in others:
        assert words == ["pip", "install", name] or (words[0] == "make" and words[1] in targets)


def test_the_figures_are_those_of_the_last_measurement():
    speed = README.read_text().partition("<!-- speed")[2].partition("-->")[2].partition("<!-- end of speed -->")[0]
    measured = json.loads((ROOT / "bench" / "results" / "sqlite.json").read_text())
    medians = {f"{figure['median']:,.0f}" for figure in measured["figures"]}
    medians |= {f"{figure['median']:.2f}" for figure in measured["figures"]}
    quoted = re.findall(r"\*\*([\d,.]+)", speed)
    assert quoted
    assert set(quoted) <= medians
