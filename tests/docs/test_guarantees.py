"""The table of guarantees leads to tests that exist, for every rule."""

import ast
import re
from functools import cache

import pytest
from pages import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
SUITE = ROOT / "src" / "tenure" / "testing" / "conformance"
RULES = dict(re.findall(r"^\*\*(\d+)\.\*\* (.*?)(?=\n\n|\Z)", PAGE, re.MULTILINE | re.DOTALL))
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


@cache
def names_in(path):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)}


def home(file):
    """Topics of the conformance suite are named without `test_`, and live with the package."""
    folder, _, name = file.partition("/")
    return SUITE / name if folder == "conformance" and not name.startswith("test_") else ROOT / "tests" / file


def test_every_rule_is_there():
    assert list(RULES) == [str(number) for number in range(1, 44)]


@pytest.mark.parametrize("number", RULES)
def test_every_rule_names_a_test(number):
    assert re.search(r"`[\w/]+\.py::test_\w+`", RULES[number])


def test_every_named_test_exists():
    missing = [f"{file}::{name}" for file, name in NAMED if not home(file).exists() or name not in names_in(home(file))]
    assert not missing


def test_every_named_topic_runs_on_the_stores_of_this_project():
    topics = {home(file).stem for file, _ in NAMED if home(file).parent == SUITE}
    running = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "conformance").glob("test_*.py")}
    assert topics <= running
