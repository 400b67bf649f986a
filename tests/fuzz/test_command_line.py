"""Any words at the command line are answered with a known exit code and never with a traceback."""

import contextlib
import io

import pytest
from budget import searched
from hypothesis import given
from hypothesis import strategies as st

from tenure.cli.program import invoke

COMMANDS = (
    "submit", "get", "status", "list", "history", "cancel", "retry", "expire", "archive", "stats", "counts", "doctor",
    "config", "show", "pause", "resume", "dlq", "purge", "workers", "migrate", "import", "completions", "schedules",
)  # fmt: skip
OPTIONS = (
    "--json", "--url", "--profile", "--limit", "--status", "--type", "--queue", "--delay", "--ttl", "--key", "--input",
    "--cursor", "--older-than", "--all", "--yes", "--force", "-h", "--", "-", "--priority", "--tag", "--at",
)  # fmt: skip
words = st.sampled_from(COMMANDS + OPTIONS) | st.text(max_size=8) | st.sampled_from(
    ["0", "-1", "1e999", "10s", "nan", "{}", "[1]", "{", "null", "pending", "dead", "memory://", "sqlite:///f.db", "x://y"]
)  # fmt: skip


@pytest.fixture
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENURE_URL", "memory://")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


@searched
@given(first=st.sampled_from(COMMANDS), rest=st.lists(words, max_size=4))
def test_any_words_are_answered_in_words(alone, first, rest):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke([first, *rest])
    assert code in (0, 1, 2, 3), (first, rest)
    assert "Traceback" not in out.getvalue() + err.getvalue(), (first, rest, err.getvalue())
