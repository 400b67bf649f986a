"""The page about the command line is the command line's own."""

from pathlib import Path

from tenure.cli.reference import JSON, page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "run: python -m tenure.cli.reference > docs/cli.md"


def test_every_command_says_what_its_json_is():
    assert [line[12:-1] for line in page().splitlines() if line.startswith("### `tenure ")] == sorted(
        JSON, key=lambda name: page().index(f"### `tenure {name}`")
    )


def test_every_option_is_explained():
    assert "|  |" not in page()
