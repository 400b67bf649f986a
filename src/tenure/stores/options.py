"""The options of a store's address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, parse_qsl, urlsplit

from tenure.errors import InvalidURL

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def separated(url: str | Sequence[str]) -> list[str]:
    """The addresses of a sharded store: a list, or a text in which blanks stand between them.

    >>> separated("sqlite:///a.db etcd://h1:2379,h2:2379/jobs")
    ['sqlite:///a.db', 'etcd://h1:2379,h2:2379/jobs']
    """
    if not isinstance(url, str):
        if isinstance(url, list | tuple) and url and all(isinstance(each, str) for each in url):
            return list(url)
        msg = f"Cannot connect to {url!r}, which is neither an address nor a list of them. Example: sqlite:///jobs.db"
        raise InvalidURL(msg)
    # A blank may stand in the name of a file. Between addresses, another one begins after it.
    return re.split(r"\s+(?=[A-Za-z][A-Za-z0-9+]*://)", url.strip()) if "://" in url else [url]


def take_apart(url: str) -> SplitResult:
    """The parts of an address. A number sign is a sign like others: nothing here has sections."""
    try:
        return urlsplit(url, allow_fragments=False)
    except ValueError as error:
        msg = f"{without_password(url)!r} is no address ({error}). Example: sqlite:///jobs.db"
        raise InvalidURL(msg) from None


def read_options(url: str, known: tuple[str, ...]) -> dict[str, str]:
    """The options behind the question mark; an unknown one is an error that lists the known ones."""
    options = dict(parse_qsl(take_apart(url).query, keep_blank_values=True))
    for name in options:
        if name not in known:
            listed = f"Known: {', '.join(known)}." if known else "This kind of store has none."
            msg = f"Unknown option {name!r} in the address of the store. {listed}"
            raise InvalidURL(msg)
    return options


def switch(name: str, value: str) -> bool:
    """An option that is on or off."""
    if value.lower() not in (*_TRUE, *_FALSE):
        msg = f"{name}={value!r} must be true or false."
        raise InvalidURL(msg)
    return value.lower() in _TRUE


def number(name: str, value: str, most: int | None = None) -> int:
    """An option that counts something."""
    if not value.isdecimal() or int(value) < 1 or (most is not None and int(value) > most):
        msg = f"{name}={value!r} must be a whole number, at least 1{f' and at most {most}' if most else ''}."
        raise InvalidURL(msg)
    return int(value)


def seconds(name: str, value: str) -> float:
    """An option that says how long."""
    try:
        given = float(value)
    except ValueError:
        given = 0.0
    if not 0 < given <= 86_400:
        msg = f"{name}={value!r} must be a number of seconds, more than 0 and at most a day."
        raise InvalidURL(msg)
    return given


def without_password(url: str) -> str:
    """An address that may be shown to anybody.

    >>> without_password("postgresql://ada:secret@host/jobs?sslpassword=secret&schema=mail")
    'postgresql://ada:***@host/jobs?sslpassword=***&schema=mail'
    """
    # A password may hold any sign if its owner forgot to quote it: rather too much is hidden than too little.
    url = re.sub(r"(://[^:@/?#\s]*):\S*@", r"\1:***@", url)
    return re.sub(r"(?i)((?:pass|secret|token|key)\w*=)[^&\s]*", r"\1***", url)
