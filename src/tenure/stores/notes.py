"""What stored notes say, for every store."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import msgspec

from tenure.task import UNREADABLE

log = logging.getLogger("tenure.store")

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def value_of(kind: str, key: str, raw: bytes | str) -> dict[str, Any]:
    """What a note says: nothing, if nobody can read it. That it is there still counts, so a paused queue stays paused."""
    try:
        return _decode(raw)
    except (*UNREADABLE, TypeError) as error:
        unreadable(kind, key, str(error))
        return {}


@lru_cache(maxsize=1000)
def unreadable(kind: str, key: str, why: str) -> None:
    """Say so once: pauses are read by every claim."""
    log.error("The note %r of kind %r cannot be read (%s). Whoever writes it again mends it.", key, kind, why)
