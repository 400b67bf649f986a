"""Settings of the command line: where the queue is and how workers run, each with where it came from.

The address is the one of `--url`, else of `$TENURE_URL`, else of the settings file: `tenure.toml`
or the table `[tool.tenure]` of `pyproject.toml`, in this folder or the nearest one above it.
A profile is a table `[profiles.NAME]` there; its values stand before those outside of it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tenure.errors import InvalidInput, one_of
from tenure.stores.options import separated

DEFAULTS: dict[str, Any] = {
    "url": "sqlite:///tenure.db",
    "app": None,
    "queues": None,
    "concurrency": None,
    "processes": 1,
    "lease": None,
    "grace": None,
    "metrics_port": None,
    "log_format": None,
    "log_level": None,
    "trace": False,
    "sentry": False,
}
"""Every setting there is. None leaves the choice to the application."""

_KINDS: dict[str, tuple[type, ...]] = {
    "url": (str, list),
    "app": (str,),
    "queues": (list,),
    "concurrency": (int,),
    "processes": (int,),
    "lease": (str, int, float),
    "grace": (str, int, float),
    "metrics_port": (str, int),
    "log_format": (str,),
    "log_level": (str,),
    "trace": (bool,),
    "sentry": (bool,),
    "profile": (str,),
    "profiles": (dict,),
}


class Setting(NamedTuple):
    """A value, and in words where it was found."""

    value: Any
    source: str


class Settings(dict[str, Setting]):
    """Every setting, by name."""

    profile: Setting | None = None
    warnings: tuple[str, ...] = ()


def find_settings(
    *,
    url: str | None = None,
    profile: str | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Settings:
    """The settings that hold in a folder, for these words of the command line."""
    found = Settings({name: Setting(value, "default") for name, value in DEFAULTS.items()})
    path, table = _find_file(folder or Path.cwd())
    for name, value in table.items():
        if name in DEFAULTS:
            found[name] = Setting(_rooted(name, value, path), str(path))
    found.profile = _chosen_profile(profile, environment, table, path)
    if found.profile is not None:
        chosen = found.profile.value
        profiles = table.get("profiles", {})
        if chosen not in profiles:
            where = f"{path} has" if path else "There is no settings file, and so"
            msg = f"{where} no profile {chosen!r}. Known: {', '.join(profiles) or 'none'}."
            raise InvalidInput(msg)
        for name, value in profiles[chosen].items():
            found[name] = Setting(_rooted(name, value, path), f"profile {chosen!r} of {path}")
    if environment.get("TENURE_URL"):
        if profile is not None and url is None and found["url"].source.startswith("profile"):
            found.warnings = (f"$TENURE_URL stands before the address of profile {profile!r}.",)
        found["url"] = Setting(environment["TENURE_URL"], "$TENURE_URL")
    if url:
        found["url"] = Setting(url, "--url")
    return found


def _chosen_profile(
    given: str | None, environment: Mapping[str, str], table: dict[str, Any], path: Path | None
) -> Setting | None:
    for value, source in (
        (given, "--profile"),
        (environment.get("TENURE_PROFILE"), "$TENURE_PROFILE"),
        (table.get("profile"), str(path)),
    ):
        if value:
            return Setting(value, source)
    return None


def _find_file(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    for place in (folder, *folder.parents):
        if (path := place / "tenure.toml").is_file():
            return path, _checked(_read(path), path)
        if (path := place / "pyproject.toml").is_file():
            tools = _read(path).get("tool")
            table = tools.get("tenure") if isinstance(tools, dict) else None
            if isinstance(table, dict):
                return path, _checked(table, path)
            if table is not None:
                msg = f"tool.tenure in {path} must be a table of settings, not {table!r}."
                raise InvalidInput(msg)
    return None, {}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{path} is not valid TOML: {error}"
        raise InvalidInput(msg) from None
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}."
        raise InvalidInput(msg) from None


def _checked(table: dict[str, Any], path: Path) -> dict[str, Any]:
    _check_table(table, path, known=[*DEFAULTS, "profile", "profiles"])
    for name, profile in table.get("profiles", {}).items():
        if not isinstance(profile, dict):
            msg = f"profiles.{name} in {path} must be a table of settings, not {profile!r}."
            raise InvalidInput(msg)
        _check_table(profile, path, known=list(DEFAULTS))
    return table


def _check_table(table: dict[str, Any], path: Path, known: list[str]) -> None:
    for name, value in table.items():
        if name not in known:
            msg = f"{path}: {one_of('setting', name, known)}"
            raise InvalidInput(msg)
        if not isinstance(value, _KINDS[name]) or (isinstance(value, bool) and bool not in _KINDS[name]):
            kinds = " or ".join(kind.__name__ for kind in _KINDS[name])
            msg = f"{path}: {name} must be of type {kinds}, not {value!r}."
            raise InvalidInput(msg)


def _rooted(name: str, value: Any, path: Path | None) -> Any:
    """A relative SQLite file in a settings file is meant from there, whichever folder the command runs in."""
    if name != "url" or path is None:
        return value
    return " ".join(_rooted_url(url, path) for url in separated(value))


def _rooted_url(url: str, path: Path) -> str:
    prefix = "sqlite:///"
    if not url.startswith(prefix) or url.startswith(f"{prefix}/"):
        return url
    return f"{prefix}{path.parent.absolute() / url.removeprefix(prefix)}"
