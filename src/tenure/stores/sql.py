"""SQL lives in files, one statement each; this reads them once."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def statement(package: str, name: str) -> str:
    """The text of `sql/<name>.sql` in a package, without its comments."""
    text = resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().rstrip(";")


@cache
def migrations(package: str) -> tuple[str, ...]:
    """The scripts in `migrations/`, in order; the number of scripts is the newest version."""
    folder = resources.files(package).joinpath("migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)
