"""What time it is on the servers: every answer of their HTTP side says so.

It is exact to a second, and that is enough: it only sets the time of a new store, and keeps it from drifting away.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import statistics
from datetime import datetime
from email.utils import parsedate_to_datetime

from tenure.stores.etcd.address import Address
from tenure.times import utc

PATIENCE = 2.0


async def server_time(address: Address) -> datetime | None:
    """The second that the middle one of the members is in, so that one with a wrong clock does no harm."""
    answers = await asyncio.gather(*(_date_of(endpoint, address) for endpoint in address.endpoints))
    return statistics.median_low([date for date in answers if date is not None] or [None])  # type: ignore[type-var]


async def _date_of(endpoint: str, address: Address) -> datetime | None:
    host, _, port = endpoint.rpartition(":")
    host = host.strip("[]")
    with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=_tls(address))
            try:
                writer.write(f"GET /version HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
                async for line in reader:
                    name, _, value = line.decode("latin-1").partition(":")
                    if name.lower() == "date":
                        return utc(parsedate_to_datetime(value.strip()))
                    if not line.strip():
                        break
            finally:
                writer.close()
    return None


def _tls(address: Address) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    context = ssl.create_default_context(cafile=address.ca)
    if address.cert is not None:
        context.load_cert_chain(address.cert, address.key)
    return context
