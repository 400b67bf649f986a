"""Signature Version 4, with the server's own time, so that a machine whose clock is wrong can still ask.

botocore signs with the machine's clock and takes a tenth of a millisecond for it; a test compares the two.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

from tenure.stores.aws.access import Keys

ALGORITHM = "AWS4-HMAC-SHA256"


def signed(
    keys: Keys,
    service: str,
    region: str,
    now: datetime,
    *,
    method: str,
    host: str,
    path: str,
    query: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    body: bytes,
) -> dict[str, str]:
    """The headers of a request, complete with those that sign it. `path` is already quoted."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    body_hash = hashlib.sha256(body).hexdigest()
    complete = {**headers, "host": host, "x-amz-date": moment}
    if service == "s3":
        complete["x-amz-content-sha256"] = body_hash
    if keys.token:
        complete["x-amz-security-token"] = keys.token
    lower = {name.lower(): " ".join(value.split()) for name, value in complete.items()}
    names = sorted(lower)
    listed = ";".join(names)
    canonical = "\n".join(
        (
            method,
            path if service == "s3" else quote(path, safe="/~"),
            written(query),
            *(f"{name}:{lower[name]}" for name in names),
            "",
            listed,
            body_hash,
        )
    )
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = f"{ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(keys.secret_key, moment[:8], region, service)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    complete["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access_key}/{scope}, SignedHeaders={listed}, Signature={signature}"
    )
    return complete


def written(query: Sequence[tuple[str, str]]) -> str:
    """The parameters of a request as they stand in its address and in what is signed."""
    return "&".join(sorted(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query))


@lru_cache(maxsize=16)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
