"""Sending one request with aiohttp, and saying what is known when no answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import aiohttp
import yarl


class NotSent(Exception):
    """The request has not reached the server: it certainly took no effect."""


class AnswerLost(Exception):
    """The request was sent, and no whole answer came: it may have taken effect."""


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """One exchange with a server; tests put faults between."""

    async def exchange(self, operation: str, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a request and read the whole answer; raises `NotSent` or `AnswerLost`."""

    async def close(self) -> None:
        """Let go of the connections."""


class HttpTransport:
    """Keeps connections open for the next requests, and at most so many at a time."""

    def __init__(self, connections: int, timeout: float) -> None:
        self._connections, self._timeout = connections, timeout
        self._session: aiohttp.ClientSession | None = None

    async def exchange(
        self,
        operation: str,  # noqa: ARG002 - for tests
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        session = self._session or self._open()
        try:
            async with session.request(
                method, yarl.URL(url, encoded=True), headers=headers, data=body or None, allow_redirects=False
            ) as answer:
                return Reply(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(str(error) or type(error).__name__) from None
        except aiohttp.InvalidURL as error:
            msg = f"{url!r} is no address ({error})"
            raise NotSent(msg) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AnswerLost(str(error) or "no answer in time") from None

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ttl_dns_cache=30),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=None, sock_connect=self._timeout, sock_read=self._timeout
            ),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # aiohttp closes encrypted connections in the next turns of the loop.
            await asyncio.sleep(0)
