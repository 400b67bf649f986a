"""The benchmark runs from end to end and tells a figure for everything; how fast is not asked here."""

import re
import subprocess
import sys

from pages import ROOT

BENCH = ROOT / "bench"


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=200, check=True).stdout


def test_a_short_run_measures_everything_and_writes_nothing(folder):
    before = (BENCH / "results" / "sqlite.md").read_text(), (ROOT / "README.md").read_text()
    page = run(BENCH / "sqlite.py", "--short", "--tasks", "500", "--backlog", "500", "--folder", folder)
    rows = re.findall(r"^\| (.+?) \| \*\*([\d,.]+) (tasks/s|ms)\*\*", page, re.MULTILINE)
    assert len(rows) == 11
    assert all(float(value.replace(",", "")) > 0 for _, value, _ in rows)
    assert "synchronous=FULL" in page
    assert before == ((BENCH / "results" / "sqlite.md").read_text(), (ROOT / "README.md").read_text())
    assert not list(folder.glob("tenure-bench-*"))


def test_results_and_the_sentence_of_the_readme_come_from_one_run(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import report

    figure = report.Figure("drain", "tasks/s", [3.0, 1000.0, 2000.0], "bare", [4000.0])
    report.write(folder / "results", "sqlite", "Speed", {"repeats": "3"}, {"cores": "2"}, [figure])
    assert (
        "| drain | **1,000 tasks/s** | 3.00 to 2,000 | 4,000 (bare) | 25% |"
        in (folder / "results" / "sqlite.md").read_text()
    )
    readme = folder / "README.md"
    readme.write_text("before\n<!-- speed: written by bench/sqlite.py -->\nold\n<!-- end of speed -->\nafter\n")
    report.quote(readme, "quick")
    assert (
        readme.read_text()
        == "before\n<!-- speed: written by bench/sqlite.py -->\nquick\n<!-- end of speed -->\nafter\n"
    )


def test_the_drain_whose_instructions_are_counted_runs(folder):
    words = (BENCH / "instructions.py", "--role", "everything_on_disk", f"sqlite:///{folder}/tasks.db", "50")
    for role in ("fill", "drain"):
        run(*words, role)
    lines = "".join(log.read_text() for log in folder.glob("*.json"))
    assert lines.count('"message":"task completed"') == 50
