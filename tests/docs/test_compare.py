"""The comparison with the peers measures, notices what is wrong, and tells all of it; how fast is not asked here."""

import argparse
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from pages import ROOT

BENCH = ROOT / "bench"

RATES = {"submit_one", "submit_callers", "submit_bulk", "drain", "drain_two", "both"}
COSTS = {"processor", "memory_busy", "memory_idle", "idle", "waiting"}

PEER = """
from pathlib import Path
import json
import time

class Peer:
    settings = "a line for every task"

    def __init__(self, url):
        self._tasks = Path(url.removeprefix("sqlite:///"))
        self._done = self._tasks.with_suffix(".done")

    def open(self):
        self._tasks.touch()
        self._done.touch()

    def prepare(self):
        pass

    def submit(self, payload):
        with self._tasks.open("a") as file:
            file.write(json.dumps(payload) + "\\n")

    def left(self):
        return len(self._tasks.read_text().splitlines()) - len(self._done.read_text())

    def work(self, note, concurrency):
        done = 0
        while True:
            for line in self._tasks.read_text().splitlines(keepends=True)[done:]:
                if not line.endswith("\\n"):
                    break
                done += 1
                try:
                    self._tasks.with_suffix(f".{done}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                note(json.loads(line))
                TWICE
                with self._done.open("a") as file:
                    file.write(".")
            time.sleep(0.001)
"""


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))


def measured(folder, monkeypatch, peer):
    """What the harness says of a peer that a test wrote."""
    import servers
    from measuring import Measurement, Size
    from systems import System

    (folder / "peer.py").write_text(peer)
    command = [sys.executable, "-P", str(BENCH / "peer.py"), str(folder / "peer")]
    monkeypatch.setattr(System, "command", lambda _: command)
    system = System("lines", "Lines", "lines", "sqlite", sleeps=False)
    with servers.started(folder, {"sqlite"}, "everysec") as places:
        measurement = Measurement(system, Size(200, 20, 10, 0.1), places, folder)
        measurement.run()
    return measurement


def test_tenure_is_measured_on_the_same_work_and_everything_is_written(folder):
    words = ["tenure-sqlite", "tenure-postgresql", "--short", "--tasks", "120", "--backlog", "0"]
    where = ["--folder", folder, "--results", folder / "results"]
    before = (ROOT / "docs" / "performance.md").read_text()
    subprocess.run([sys.executable, BENCH / "compare.py", *words, *where], capture_output=True, timeout=280, check=True)
    known = json.loads((folder / "results" / "comparison.json").read_text())
    rows = {row["name"]: row for row in known["rows"]}
    assert list(rows) == ["tenure-sqlite", "tenure-postgresql", "bare-sqlite", "bare-asyncpg", "asyncio"]
    for name in ("tenure-sqlite", "tenure-postgresql"):
        assert rows[name]["failures"] == {}
        assert rows[name]["figures"].keys() >= RATES | COSTS | {"half", "most"}
        assert all(value > 0 for figure in RATES for value in rows[name]["figures"][figure])
    assert rows["tenure-postgresql"]["figures"].keys() >= {"far", "near", "requests"}
    page = (folder / "results" / "comparison.md").read_text()
    assert "| **Tenure** (SQLite) |" in page
    for name in re.findall(r"\]\((\w+\.svg)\)", page):
        assert ET.parse(folder / "results" / name).getroot().tag.endswith("svg")
    assert (ROOT / "docs" / "performance.md").read_text() == before


def test_a_drain_beside_a_backlog_is_a_share_of_one_on_an_empty_store(folder, monkeypatch):
    import backlogs
    import servers
    from comparison import Row
    from measuring import Size
    from systems import all_systems

    system = next(system for system in all_systems() if system.name == "tenure-sqlite")
    shape = "tasks behind one ordering key"
    monkeypatch.setattr(backlogs, "SHAPES", {shape: backlogs.SHAPES[shape]})
    row = Row.of(system)
    with servers.started(folder, {"sqlite"}, "everysec") as places:
        choices = argparse.Namespace(backlog=500, repeats=1)
        backlogs.drains_beside(system, row, Size(100, 20, 10, 0.1), places, folder, choices)
    assert row.failures == {}
    assert list(row.figures) == ["beside_ordered"]
    assert row.figures["beside_ordered"][0] > 0


def test_a_peer_is_any_program_that_submits_works_and_counts(folder, monkeypatch):
    found = measured(folder, monkeypatch, PEER.replace("TWICE", "pass"))
    assert found.failures == {}
    assert found.figures.keys() == (RATES | COSTS | {"half", "most"}) - {"submit_bulk", "waiting"}
    assert found.settings == "a line for every task"


def test_a_system_that_runs_a_task_twice_has_no_figure_for_it(folder, monkeypatch):
    found = measured(folder, monkeypatch, PEER.replace("TWICE", "done == 7 and note(json.loads(line))"))
    assert found.failures["drain"] == "of 200 tasks, 1 ran more than once and 0 never"
    assert "drain" not in found.figures


def test_a_worker_that_dies_is_reported_with_its_last_error(folder, monkeypatch):
    found = measured(folder, monkeypatch, PEER.replace("TWICE", "raise ValueError('no more')"))
    assert found.failures["drain"] == "ValueError: no more"
    assert found.failures["both"] == "ValueError: no more"


def test_a_peer_that_cannot_be_installed_stands_in_the_results_with_the_reason(folder, monkeypatch):
    import compare
    import systems
    from comparison import Comparison, Row, page

    monkeypatch.setattr(systems, "HOME", folder)
    system = systems.System("new", "New", "new", "redis", python="3.99")
    row = Row.of(system)
    assert not compare._installed(system, row)
    assert "- New (Redis), installation: needs Python 3.99, and none was found" in page(Comparison({}, {}, [row]))


def test_every_system_has_an_adapter_and_pins(folder):
    from systems import PEERS, all_systems

    for system in all_systems():
        ending = "mjs" if system.language == "node" else "py"
        assert (PEERS / f"{system.adapter}.{ending}").exists(), system
        if system.language == "python" and not system.is_tenure:
            pins = (PEERS / f"{system.adapter}.txt").read_text().splitlines()
            assert all(re.fullmatch(r"[\w.\-]+==[\w.]+", pin) for pin in pins), system
            assert system.version()
    pins = json.loads((PEERS / "package.json").read_text())
    assert all(re.fullmatch(r"[\d.]+", version) for version in pins["dependencies"].values())


def test_the_page_on_speed_tells_the_figures_of_the_last_run():
    import performance
    from comparison import Comparison

    page = performance.PAGE.read_text()
    if not performance.RESULTS.exists():
        assert "Not measured yet" in page
        return
    assert performance.rendered(page, Comparison.read(performance.RESULTS)) == page


def test_a_peer_that_is_ahead_is_named(folder):
    import performance
    from comparison import Comparison, Row

    ours = Row("tenure-postgresql", "**Tenure** (PostgreSQL)", "postgresql", figures={"drain": [900.0, 1000.0, 1100.0]})
    theirs = Row("other", "Other", "postgresql", language="node", figures={"drain": [2000.0], "submit_one": [1.0]})
    assert performance.ahead(Comparison({}, {}, [ours, theirs])) == [
        "- drain, 1 process: Other (PostgreSQL, node) does 2,000/s, Tenure 1,000/s."
    ]
    assert performance.ahead(Comparison({}, {}, [theirs, ours][1:])) == ["None of them, in this run."]


def test_an_aim_is_met_or_not_and_what_was_not_measured_is_neither():
    from goals import SQLITE, Goal

    assert Goal("drain", SQLITE, "tasks/s", 200.0, least=100).line() == (
        "| drain | SQLite | tasks/s: at least 100 | 200 | yes |"
    )
    assert Goal("idle", SQLITE, "MiB", 61.0, most=60).line() == "| idle | SQLite | MiB: at most 60 | 61.00 | **no** |"
    assert Goal("idle", SQLITE, "MiB", None, most=60).line() == (
        "| idle | SQLite | MiB: at most 60 | - | not measured |"
    )
