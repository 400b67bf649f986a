"""From MODULE:OBJECT to something that can work."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import Any

from tenure.app import Tenure
from tenure.cli.errors import WrongUsage
from tenure.errors import TenureError
from tenure.worker import Worker

EXAMPLE = "Write MODULE:OBJECT, like myapp:app, where OBJECT is a Tenure application, a Worker, or a function that returns one."


def find(target: str) -> Any:
    """Import the module and find the object."""
    module_name, _, name = target.partition(":")
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        msg = f"{target!r} is no module path. {EXAMPLE}"
        raise WrongUsage(msg)
    return _find(_import(module_name), name)


async def load(target: str) -> Tenure | Worker:
    """Find the object, and call it if it is a function."""
    found = find(target)
    if inspect.isroutine(found):
        try:
            found = found()
            if inspect.isawaitable(found):
                found = await found
        except (TenureError, WrongUsage):
            raise
        except Exception as error:
            msg = f"{target} failed{_where(error)}: {type(error).__name__}: {error}\nIt is called without arguments. Use --verbose to see the traceback."
            raise WrongUsage(msg) from error
    if not isinstance(found, Tenure | Worker):
        msg = f"{target} is {_described(found)}, not a Tenure application or a Worker. {EXAMPLE}"
        raise WrongUsage(msg)
    return found


def _import(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            msg = f"There is no module {missing!r} in {here} or among the installed packages. {EXAMPLE}"
        else:
            msg = f"The module {name!r} imports {missing!r}, which is not installed."
        raise WrongUsage(msg) from error
    except Exception as error:
        msg = f"The module {name!r} cannot be imported: {type(error).__name__}: {error}\nUse --verbose to see where."
        raise WrongUsage(msg) from error


def _find(module: Any, path: str) -> Any:
    choices = {name: value for name, value in vars(module).items() if isinstance(value, Tenure | Worker)}
    listed = ", ".join(f"{module.__name__}:{name}" for name in choices)
    if not path:
        if len(choices) == 1:
            return next(iter(choices.values()))
        msg = f"Say which object of {module.__name__!r} to run. Found: {listed or 'none'}. {EXAMPLE}"
        raise WrongUsage(msg)
    found = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            msg = f"{module.__name__!r} has no {path!r}. Found there: {listed or 'no application and no worker'}."
            raise WrongUsage(msg) from None
    return found


def _where(error: Exception) -> str:
    """The line of the application's own code that it comes from, if it got that far."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""


def _described(found: Any) -> str:
    return "None" if found is None else f"of type {type(found).__name__}"
