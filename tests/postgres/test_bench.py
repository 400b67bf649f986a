"""The benchmark runs from end to end and tells a figure for everything; how fast is not asked here."""

import re
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_a_short_run_measures_everything_and_writes_nothing():
    before = (BENCH / "results" / "postgres.md").read_text()
    words = [sys.executable, BENCH / "postgres.py", "--short", "--tasks", "300", "--backlog", "300"]
    page = subprocess.run(words, capture_output=True, text=True, timeout=200, check=True).stdout
    rows = re.findall(r"^\| (.+?) \| \*\*([\d,.]+) (tasks/s|ms|)\*\*", page, re.MULTILINE)
    assert len(rows) == 14
    assert all(float(value.replace(",", "")) > 0 for _, value, _ in rows)
    assert (BENCH / "results" / "postgres.md").read_text() == before
