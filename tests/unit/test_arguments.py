"""What callers give is taken as it is, or refused by the name of the argument with its value."""

from datetime import timedelta

import pytest

from tenure import arguments
from tenure.arguments import KEY_LIMIT, NAME_LIMIT
from tenure.errors import InvalidInput


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (arguments.words, ""),
        (arguments.words, "ü🦉\0"),
        (arguments.words, "x" * 10_000),
        (arguments.text, "k" * KEY_LIMIT),
        (arguments.name, "x" * NAME_LIMIT),
        (arguments.count, 0),
        (arguments.count, 2**70),
    ],
)
def test_what_is_right_is_taken_as_it_is(check, value):
    assert check("field", value) == value
    assert arguments.optional(check, "field", value) == value


@pytest.mark.parametrize(
    ("check", "value", "words"),
    [
        (arguments.words, None, "field must be a string, not None."),
        (arguments.words, b"job", "field must be a string, not b'job'."),
        (arguments.words, "\ud800", r"field='\ud800' is not valid Unicode."),
        (arguments.text, "", "field is empty. Give it at least one character."),
        (
            arguments.text,
            "k" * (KEY_LIMIT + 1),
            f"field has 1025 characters ('{'k' * 40}'…); at most 1024 are allowed.",
        ),
        (arguments.name, "x" * (NAME_LIMIT + 1), f"field has 256 characters ('{'x' * 40}'…); at most 255 are allowed."),
        (arguments.count, -1, "field=-1 must be a whole number, zero or more."),
        (arguments.count, True, "field=True must be a whole number, zero or more."),
        (arguments.count, 1.5, "field=1.5 must be a whole number, zero or more."),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(check, value, words):
    with pytest.raises(InvalidInput) as refusal:
        check("field", value)
    assert str(refusal.value) == words


def test_a_count_can_have_an_end():
    assert arguments.count("limit", 1000, 1000) == 1000
    with pytest.raises(InvalidInput, match=r"limit=1001 is too many; at most 1000 are allowed\."):
        arguments.count("limit", 1001, 1000)


def test_nothing_is_nothing_where_that_is_allowed():
    assert arguments.optional(arguments.name, "field", None) is None


def test_no_more_of_a_value_is_shown_than_tells_which_it_is():
    assert arguments.shown("x" * 1000) == f"'{'x' * 79}…"
    assert arguments.shown([1, 2]) == "[1, 2]"
    assert arguments.shown(timedelta(hours=1)) == "1:00:00"
