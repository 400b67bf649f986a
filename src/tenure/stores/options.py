"""The options of a store's address."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from tenure.errors import InvalidURL


def read_options(url: str, known: tuple[str, ...]) -> dict[str, str]:
    """The options behind the question mark; an unknown one is an error that lists the known ones."""
    options = dict(parse_qsl(urlsplit(url, allow_fragments=False).query, keep_blank_values=True))
    for name in options:
        if name not in known:
            listed = f"Known: {', '.join(known)}." if known else "This kind of store has none."
            msg = f"Unknown option {name!r} in the address of the store. {listed}"
            raise InvalidURL(msg)
    return options


def without_password(url: str) -> str:
    """An address that may be shown to anybody.

    >>> without_password("postgresql://ada:secret@host/jobs?sslpassword=secret&schema=mail")
    'postgresql://ada:***@host/jobs?sslpassword=***&schema=mail'
    """
    url = re.sub(r"(://[^:@/?]*):[^@/]*@", r"\1:***@", url)
    return re.sub(r"(password=)[^&]*", r"\1***", url)
