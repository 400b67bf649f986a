"""A user's strict type checker sees what a task takes and gives."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "user_program.py"


def test_a_users_program_passes_a_strict_type_checker(tmp_path):
    """Unused `type: ignore` comments are errors there: what ought to be refused is refused."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(PROGRAM)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
