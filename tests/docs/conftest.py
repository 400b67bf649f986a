"""Every page is tried out in an empty folder, as a reader would."""

import os
import sys
from pathlib import Path

import pytest

import tenure

SOURCE = Path(tenure.__file__).parents[1]

# The tests find the module beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE}{os.pathsep}{tmp_path}")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    for name in ("TENURE_URL", "TENURE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).is_relative_to(tmp_path):
            del sys.modules[name]
