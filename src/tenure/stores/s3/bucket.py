"""The few requests that the store makes: read, write and delete under a condition, and list.

A write whose answer was lost may have taken effect. Every body carries a nonce, so the writer
reads back and knows its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

from tenure.errors import StoreUnavailable, StoreUnusable
from tenure.stores.aws import Answer, AwsClient, Request
from tenure.stores.s3.address import Address

PAGE = 1000
"""The most names that a service gives in one answer."""
_REFUSED = (404, 409, 412)
"""Answers to a write whose condition does not hold; 409 is a race that another writer is about to win."""
_NAMESPACE = re.compile(rb'\sxmlns="[^"]*"')


class Object(NamedTuple):
    """What an object holds, and the tag of this very version."""

    body: bytes
    etag: str


class Listed(NamedTuple):
    """An object in a listing."""

    name: str
    etag: str


class Listing(NamedTuple):
    """One page of names in order; `more` when others follow, and when (by the monotonic clock) it was asked for."""

    objects: list[Listed]
    more: bool
    asked: float = 0.0


class Written(NamedTuple):
    """The tag of what was written; none when the condition did not hold.

    It is `unsure` when the answer to an earlier sending was lost: that may have taken effect, and been changed since.
    """

    etag: str | None
    unsure: bool = False


class Unchanged:
    """The object is still the version that the reader knows."""


UNCHANGED = Unchanged()


class Bucket:
    """The objects under one prefix of one bucket."""

    def __init__(self, client: AwsClient, address: Address) -> None:
        self.client, self.address = client, address

    def twin(self) -> Bucket:
        """The same bucket for the event loop of another thread."""
        return Bucket(self.client.twin(), self.address)

    async def get(self, name: str, known: str | None = None) -> Object | Unchanged | None:
        """An object, unless it is the known version still; None when there is none."""
        headers = {} if known is None else {"If-None-Match": known}
        answer = await self._send("GET", name, headers=headers)
        if answer.status == 304:
            return UNCHANGED
        if answer.status == 404:
            if answer.code == "NoSuchBucket":
                raise self._refusal(answer, "read", name)
            return None
        if not answer.ok:
            raise self._refusal(answer, "read", name)
        return Object(answer.body, answer.headers["ETag"])

    async def read(self, name: str) -> Object | None:
        """An object, or None."""
        found = await self.get(name)
        assert not isinstance(found, Unchanged)
        return found

    async def create(self, name: str, body: bytes, nonce: str) -> str | None:
        """Write an object that must not be there yet; its tag, or None when there is one."""
        return (await self._put(name, body, nonce, {"If-None-Match": "*"})).etag

    async def replace(self, name: str, body: bytes, nonce: str, etag: str) -> str | None:
        """Write over this very version; the new tag, or None when another was faster."""
        return (await self.try_replace(name, body, nonce, etag)).etag

    async def try_replace(self, name: str, body: bytes, nonce: str, etag: str) -> Written:
        """The same, and whether the write may have taken effect before another came."""
        return await self._put(name, body, nonce, {"If-Match": etag})

    async def _put(self, name: str, body: bytes, nonce: str, condition: dict[str, str]) -> Written:
        answer = await self._send("PUT", name, headers={**condition, "Content-Type": "application/json"}, body=body)
        if answer.ok:
            return Written(answer.headers["ETag"])
        if answer.status not in _REFUSED or answer.code == "NoSuchBucket":
            raise self._refusal(answer, "write", name)
        if answer.repeated and (found := await self.read(name)) is not None and nonce.encode() in found.body:
            return Written(found.etag)
        return Written(None, unsure=answer.repeated)

    async def delete(self, name: str, etag: str) -> bool:
        """Delete this very version; False when it is not there (any more)."""
        answer = await self._send("DELETE", name, headers={"If-Match": etag})
        if answer.ok:
            return True
        if answer.status not in _REFUSED:
            raise self._refusal(answer, "delete", name)
        return answer.repeated and await self.read(name) is None

    async def page(self, folder: str, after: str = "", limit: int = PAGE) -> Listing:
        """Names in a folder, in order, behind `after`."""
        start = self.address.key(folder)
        query = [("list-type", "2"), ("max-keys", str(limit)), ("prefix", start)]
        if after:
            query.append(("start-after", self.address.key(after)))
        asked = time.monotonic()
        answer = await self._send("LIST", None, query=query, read=_listing)
        if not answer.ok:
            raise self._refusal(answer, "list", folder)
        cut = len(self.address.key(""))
        found: Listing = answer.value
        return Listing([Listed(entry.name[cut:], entry.etag) for entry in found.objects], found.more, asked)

    async def names(self, folder: str, after: str = "") -> list[Listed]:
        """All names in a folder, a request for each thousand."""
        found: list[Listed] = []
        while True:
            page = await self.page(folder, after)
            found += page.objects
            if not page.more or not page.objects:
                return found
            after = page.objects[-1].name

    async def ask(self, method: str, query: tuple[str, str] | None = None) -> Answer:
        """A request about the bucket itself."""
        return await self._send(f"{method} bucket", None, query=[query] if query else [])

    async def _send(
        self,
        operation: str,
        name: str | None,
        *,
        headers: dict[str, str] | None = None,
        query: list[tuple[str, str]] | None = None,
        body: bytes = b"",
        read: Callable[[bytes], object] | None = None,
    ) -> Answer:
        if name is not None and name.startswith("notes/"):
            # Counted apart: signs of life are no part of what a task costs.
            operation += " note"
        path = f"/{self.address.bucket}"
        if name is not None:
            path += f"/{quote(self.address.key(name), safe='/-_.~')}"
        return await self.client.send(
            Request(
                operation,
                {"LIST": "GET"}.get(operation, operation.partition(" ")[0]),
                path,
                query or [],
                headers or {},
                body,
                read,
            )
        )

    def _refusal(self, answer: Answer, what: str, name: str) -> Exception:
        code = answer.code or str(answer.status)
        place = f"{self.address.shown}/{name}"
        if code == "NoSuchBucket":
            msg = f"There is no bucket {self.address.bucket!r}. Create it, or add ?create=true to the address."
            return StoreUnusable(msg)
        if answer.status in (401, 403):
            msg = f"The credentials may not {what} {place} ({code}). Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket."
            return StoreUnusable(msg)
        if answer.status == 501:
            msg = f"The server does not know how to {what} {place} under a condition ({code}); a queue needs that."
            return StoreUnusable(msg)
        msg = f"Could not {what} {place}: the server answered {code}."
        return StoreUnavailable(msg)


def _listing(body: bytes) -> Listing:
    try:
        root = ET.fromstring(_NAMESPACE.sub(b"", body, count=1))  # noqa: S314 - the server that is trusted with everything
    except ET.ParseError as error:
        raise ValueError(str(error)) from None
    return Listing(list(_entries(root)), root.findtext("IsTruncated") == "true")


def _entries(root: ET.Element) -> Iterator[Listed]:
    for entry in root.iter("Contents"):
        etag = entry.findtext("ETag", "")
        quoted = etag if etag.startswith('"') else f'"{etag}"'
        yield Listed(entry.findtext("Key", ""), quoted)
