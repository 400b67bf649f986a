"""Where a value ends that stands in a text: at its closing quote or bracket, however it is nested and escaped.

In doubt it ends later rather than sooner. The text is gone over once, whatever is in it.
"""

from __future__ import annotations

import re

_TURN = re.compile(r"\\++['\"]?|['\"]|[()\[\]{}]|[\s,;&]")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|negotiate)[ \t]++", re.IGNORECASE)
_PREFIX = re.compile(r"[bru]{0,2}(?=\\*+['\"])", re.IGNORECASE)
"""What stands before a quote that opens, as in b'…'."""
_NEXT = re.compile(r"\s|\Z|\\*+['\"]?[\w.%-]++\\*+['\"]?\s*+[:=]")
"""After a comma: what shows that something else begins."""
_BEYOND = re.compile(r"\Z|[\s,;&:.)\]}>'\"\\]")
"""After a quote or bracket that was not opened by the value: what shows that it closes something around it."""
_QUOTE_OR_BACKSLASHES = {quote: re.compile(rf"\\++{quote}?|{quote}") for quote in "'\""}


def end_of_value(text: str, start: int) -> int:
    """The place after the value that begins at `start`.

    >>> text = "tokens=['a', 'b'], user='ada'"
    >>> text[7 : end_of_value(text, 7)]
    "['a', 'b']"
    """
    if scheme := _SCHEME.match(text, start):
        start = scheme.end()
    prefix = _PREFIX.match(text, start)
    opens_at = prefix.end() if prefix else start
    at, depth = start, 0
    while turn := _TURN.search(text, at):
        found, at = turn[0], turn.end()
        if found[-1] in "'\"":
            if depth or turn.start() == opens_at:
                at = opens_at = _end_of_quoted(text, at, found)
            elif _BEYOND.match(text, at):
                return turn.start()
        elif found in "([{":
            depth += 1
        elif found in ")]}":
            if depth:
                depth -= 1
            elif _BEYOND.match(text, at):
                return turn.start()
        elif not depth and (found.isspace() or (found in ",;&" and _NEXT.match(text, at))):
            return turn.start()
    return len(text)


def _end_of_quoted(text: str, at: int, opened: str) -> int:
    """The place after the quote that closes what `opened`.

    Within a text that is itself quoted, both have as many backslashes before them. More belong to a quote inside, fewer to the
    quotes around it.
    """
    quote = opened[-1]
    while found := _QUOTE_OR_BACKSLASHES[quote].search(text, at):
        at = found.end()
        if found[0][-1] == quote and len(found[0]) <= len(opened):
            return at if len(found[0]) == len(opened) else found.start()
    return len(text)
