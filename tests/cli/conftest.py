"""One way to run the command: as a process of its own, or in this one where a process adds nothing."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pexpect
import pytest

import tenure.sync
from tenure import PermanentError, Worker, connect
from tenure.cli.program import invoke

APPLICATION = Path(__file__).with_name("shop.py")
SOURCE = Path(tenure.__file__).parent.parent


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        """The one object that was printed."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def objects(self):
        """The objects that were printed, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal:
    """Runs `tenure` in a folder of its own; an exit code that is not expected fails the test at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'tenure.db'}"
        foreign = ("TENURE", "_TENURE", "COLUMNS", "LINES")
        known = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self.environment = {**known, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error", "TERM": "xterm-256color"}

    def __call__(self, *words, code=0, stdin="") -> Answer:
        """Run in this process."""
        out, err = io.StringIO(), io.StringIO()
        before = sys.stdin
        sys.stdin = io.StringIO(stdin)
        try:
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                answer = Answer(invoke([str(word) for word in words]), out.getvalue(), err.getvalue())
        finally:
            sys.stdin = before
        return self._checked(answer, code)

    def process(self, *words, code=0, stdin="", timeout=60, **environment) -> Answer:
        """Run as a process of its own."""
        done = subprocess.run(
            self._command(words),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment | environment,
            timeout=timeout,
            check=False,
        )
        return self._checked(Answer(done.returncode, done.stdout, done.stderr), code)

    def start(self, *words, **environment) -> subprocess.Popen:
        """Start a process and go on."""
        return subprocess.Popen(
            self._command(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment | environment,
        )

    def screen(self, *words, timeout=30, size=(50, 160), **environment) -> pexpect.spawn:
        """Start at a terminal, with somebody before it."""
        first, *rest = self._command(words)
        return pexpect.spawn(
            first,
            rest,
            cwd=self.folder,
            env=self.environment | environment,
            encoding="utf-8",
            dimensions=size,
            timeout=timeout,
            # A shell that runs the tests in the background hands on that interrupts are ignored; a terminal does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def _command(self, words) -> list[str]:
        return [sys.executable, "-m", "tenure", *(str(word) for word in words)]

    def _checked(self, answer: Answer, code: int) -> Answer:
        assert answer.code == code, f"exit code {answer.code}, not {code}\n{answer.out}\n{answer.err}"
        return answer


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    for name in ("TENURE_URL", "TENURE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "shop.py").write_text(APPLICATION.read_text())
    return Terminal(tmp_path)


@pytest.fixture
def queue(terminal):
    """The queue that the commands of this test see."""
    with tenure.sync.connect(terminal.url) as queue:
        yield queue


async def work_off(url: str) -> None:
    """Run what is due, without a process: `greet` works, `fails` never does, `breaks` fails for good at once."""
    async with connect(url) as queue:
        worker = Worker(queue, retry=None)

        @worker.task("greet")
        async def greet(input):
            return f"hello {input}"

        @worker.task("breaks")
        async def breaks(input):
            msg = f"{input} is broken"
            raise PermanentError(msg)

        await worker.run(until_idle=True)
