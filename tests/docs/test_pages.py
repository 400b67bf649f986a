"""The Python of every page runs, block after block, and prints what the page says.

A page is one session, as in a notebook: later blocks see the names of earlier ones,
and `await` may stand at the top.
"""

import ast
import contextlib
import importlib
import inspect
import io
import re

import pytest
from pages import ROOT, blocks, check_printed, pages

PAGES = [page for page in pages() if page.name != "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_the_python_of_a_page_runs_and_prints_what_it_says(page, folder):
    names = {"__name__": "page"}
    for block in blocks(page):
        if block.language != "python":
            continue
        if block.file:
            (folder / block.file).write_text(block.text)
            importlib.invalidate_caches()
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(printed):
            running = eval(code, names)
            if inspect.iscoroutine(running):
                await running
        check_printed(block, printed.getvalue())


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_names_a_heading(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.+)$", (page.parent / target if target else page).read_text(), re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert anchor in anchors


def test_every_file_that_the_architecture_names_is_there():
    source = ROOT / "src" / "tenure"
    places = [source, ROOT, source / "stores" / "sqlite", source / "stores" / "sqlite" / "sql"]
    named = set(re.findall(r"`([\w/]+\.(?:py|sql|toml)|[\w/]+/)`", (ROOT / "docs" / "architecture.md").read_text()))
    assert len(named) > 20
    assert not [name for name in named if not any((place / name).exists() for place in places)]
