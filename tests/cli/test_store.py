"""`tenure migrate`, `sql`, `bench` and `completions`."""

import contextlib
import sqlite3

import pytest

from tenure.stores.schema import scripts


def test_migrate_sets_a_store_up_and_says_what_it_did(terminal):
    newest = len(scripts(terminal.url))
    assert terminal("migrate", "--check", "--json", code=1).json == {"before": 0, "now": 0, "newest": newest}
    assert not (terminal.folder / "tenure.db").exists()
    assert terminal("migrate").out == f"The schema had version 0; now: {newest}.\n"
    assert terminal.process("migrate", "--check").out == f"The schema is up to date: version {newest}.\n"
    assert terminal("migrate", "--json").json == {"before": newest, "now": newest, "newest": newest}


def test_a_store_of_a_newer_tenure_is_left_alone(terminal):
    terminal("migrate")
    with contextlib.closing(sqlite3.connect(terminal.folder / "tenure.db")) as connection, connection:
        connection.execute("INSERT INTO tenure_schema (version) VALUES (99)")
    assert "written by a newer Tenure" in terminal("migrate", code=3).err
    assert terminal("migrate", "--check", "--json", code=1).json["before"] == 99


def test_the_printed_sql_makes_the_schema_that_tenure_makes(terminal, tmp_path):
    printed = terminal.process("sql").out
    with contextlib.closing(sqlite3.connect(tmp_path / "own.db")) as connection:
        connection.executescript(printed)
    answer = terminal("migrate", "--check", "--json", "--url", f"sqlite:///{tmp_path / 'own.db'}").json
    assert answer["before"] == answer["newest"]
    assert terminal("submit", "-t", "greet", "--url", f"sqlite:///{tmp_path / 'own.db'}").code == 0
    newest = len(scripts(terminal.url))
    assert terminal("sql", "--since", newest).out == ""
    assert [script["version"] for script in terminal("sql", "--json").objects] == list(range(1, newest + 1))


@pytest.mark.parametrize("command", ["sql", "migrate"])
def test_a_store_without_sql_says_so(terminal, command):
    assert "has no SQL schema" in terminal(command, "--url", "memory://", code=2).err


def test_bench_measures_and_leaves_nothing_behind(terminal, queue):
    figures = terminal.process("bench", "--tasks", "100", "--json").json
    names = {"submit_one_by_one", "submit_concurrently", "submit_in_bulk", "drain", "latency_median", "latency_slowest"}
    assert figures.keys() == names
    assert all(value > 0 for value in figures.values())
    assert not any(queue.counts().values())
    head, *rows = terminal("bench", "--tasks", "100").out.splitlines()
    assert head.split() == ["what", "result", "unit"]
    assert len(rows) == 6


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(terminal, shell):
    script = terminal("completions", shell).out
    assert "_TENURE_COMPLETE" in script
    assert terminal("completions", shell, "--json").json == {"shell": shell, "script": script.rstrip("\n")}


def test_a_shell_is_told_the_commands_that_fit(terminal):
    asked = {"_TENURE_COMPLETE": "complete_bash", "COMP_WORDS": "tenure st", "COMP_CWORD": "1"}
    assert terminal.process(**asked).out.split() == ["status", "stats"]
    assert "bash" in terminal("completions", "tcsh", code=2).err
