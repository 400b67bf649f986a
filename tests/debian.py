"""Programs of Debian's packages, unpacked beside the virtual environment's own and never installed.

python tests/debian.py            fetch what the tests need
python tests/debian.py name …     fetch these packages
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(sys.prefix) / "debian"
PACKAGES = ("pgbouncer", "libc-ares2", "prometheus", "libfaketime", "etcd-server", "etcd-client")


def fetch(packages):
    """Download and unpack packages; a list of what is there that is too old is brought up to date once."""
    with tempfile.TemporaryDirectory(prefix="tenure-debian-") as folder:
        download = ["apt-get", "download", "-qq", *packages]
        if subprocess.run(download, cwd=folder, check=False, capture_output=True).returncode:
            subprocess.run(["apt-get", "update", "-qq"], check=True)
            subprocess.run(download, cwd=folder, check=True)
        FOLDER.mkdir(exist_ok=True)
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, FOLDER], check=True)


def program(name):
    """The path of a program that was fetched."""
    for folder in ("usr/bin", "usr/sbin"):
        if (path := FOLDER / folder / name).exists():
            return path
    msg = f"{name} is not in {FOLDER}. Run `make test`, which fetches it, or `python tests/debian.py` once."
    raise LookupError(msg)


def environment():
    """The environment in which fetched programs find their fetched libraries."""
    libraries = sorted({str(library.parent) for library in FOLDER.glob("**/lib/*-linux-*/*.so*")})
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")}


if __name__ == "__main__":
    fetch(sys.argv[1:] or PACKAGES)
