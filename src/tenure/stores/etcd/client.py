"""Requests to a cluster: each has a deadline, and a member that does not answer is left for the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from tenure.errors import StoreClosed, StoreFull, StoreUnavailable
from tenure.stores.door import Door
from tenure.stores.etcd.address import Address
from tenure.stores.etcd.requests import OPS_LIMIT, Txn, answers
from tenure.stores.etcd.trouble import explained, is_away, wants_login
from tenure.stores.etcd.wire import message

ResponseOp = message("ResponseOp")
RANGE, TXN, WATCH = "KV/Range", "KV/Txn", "Watch/Watch"
_ANSWERS = {
    RANGE: "RangeResponse",
    TXN: "TxnResponse",
    "Lease/LeaseGrant": "LeaseGrantResponse",
    "Lease/LeaseRevoke": "LeaseRevokeResponse",
    "Auth/Authenticate": "AuthenticateResponse",
    "Maintenance/Status": "StatusResponse",
    WATCH: "WatchResponse",
    "Lease/LeaseKeepAlive": "LeaseKeepAliveResponse",
}
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # A member that comes back is noticed within a second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection that leads nowhere any more is noticed too; servers refuse more pings than one in five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)
PAUSE = 0.05
"""Seconds between two tries, so that a cluster without a leader is not flooded."""
TRIES = 3
"""So many tries a request gets at least: a process that stood still finds its time over, and a healthy server."""


class Unanswered(StoreUnavailable):
    """Nobody can tell from this alone whether the request took effect."""


class Patience:
    """How long one answer is waited for."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._tries = 0

    async def bear(self, error: Unanswered) -> None:
        """Wait a moment before the next try; raises the error when there shall be none."""
        self._tries += 1
        if self._tries >= TRIES and time.monotonic() + PAUSE >= self._until:
            raise error
        await asyncio.sleep(PAUSE)


class Client:
    """The members of one cluster, of which one is asked until it fails."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.revision = 0
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: dict[tuple[str, str], Any] = {}
        self.member = 0
        """Which one is asked at present; it only grows, so that each turn has a number of its own."""
        self._token: str | None = None
        self._login = asyncio.Lock()
        self._reading: set[asyncio.Future[Any]] = set()
        self.door = Door(f"The queue on etcd at {address.shown}", one_loop=True)

    @property
    def patience(self) -> float:
        """Seconds that one member gets for one answer."""
        return self.address.timeout / TRIES

    @property
    def endpoint(self) -> str:
        """Where the member is that is asked at present."""
        return self._endpoint(self.member)

    def _endpoint(self, member: int) -> str:
        return self.address.endpoints[member % len(self.address.endpoints)]

    def leave(self, member: int) -> None:
        """Ask the next member, unless somebody has left this one already.

        Requests fail together when a member dies: if each of them went one further, they might all come back to it.
        """
        if self.member == member:
            self.member += 1

    async def read(self, ops: Sequence[Any]) -> list[Any]:
        """The answers to reads of one moment. There may be more of them than one transaction takes: then of several."""
        if len(ops) <= OPS_LIMIT:
            try:
                response = await self.ask(TXN, Txn(success=ops))
            except StoreFull:
                return await self._read_one_by_one(ops)
            return list(answers(response.responses))
        parts = [ops[start : start + OPS_LIMIT] for start in range(0, len(ops), OPS_LIMIT)]
        return [answer for part in await asyncio.gather(*map(self.read, parts)) for answer in part]

    async def _read_one_by_one(self, ops: Sequence[Any]) -> list[Any]:
        """A server whose quota is used up refuses transactions, also those that only read."""
        found: list[Any] = []
        for op in ops:
            if found:
                op.request_range.revision = found[0].response_range.header.revision
            found.append(ResponseOp(response_range=await self.ask(RANGE, op.request_range)))
        return found

    async def ask(self, path: str, request: Any) -> Any:
        """Make a request that does no harm when it is made twice, until a member answers or patience ends."""
        patience = Patience(self.address.timeout)
        while True:
            try:
                return await self.tell(path, request)
            except Unanswered as error:
                await patience.bear(error)

    async def tell(self, path: str, request: Any) -> Any:
        """Make a request once."""
        member = self.member
        try:
            return await self._authorized(path, request)
        except grpc.aio.AioRpcError as error:
            trouble = explained(error, self._endpoint(member))
            if is_away(error):
                self.leave(member)
                raise Unanswered(str(trouble)) from error
            raise trouble from error
        except grpc.aio.UsageError as error:
            # The channel was closed while this request was on its way to it.
            msg = "This queue is closed. Connect again."
            raise StoreClosed(msg) from error

    async def _authorized(self, path: str, request: Any) -> Any:
        try:
            return await self._once(path, request)
        except grpc.aio.AioRpcError as error:
            if self.address.user is None or not wants_login(error):
                raise
        # The request was refused before it was looked at: with a new token it can be made again.
        await self.log_in(self._token)
        return await self._once(path, request)

    async def _once(self, path: str, request: Any) -> Any:
        metadata = await self.metadata()
        if path == TXN and not request.compare:
            response = await self._to_its_end(self.call(path)(request, metadata=metadata))
        else:
            response = await self.call(path)(request, timeout=self.patience, metadata=metadata)
        self.revision = max(self.revision, response.header.revision)
        return response

    async def _to_its_end(self, call: Any) -> Any:
        """Wait for a read with patience, and let it go on when that ends.

        A server before 3.5.5 falls over when a transaction that only reads is cancelled while it is at it.
        """
        member = self.member
        reading = asyncio.ensure_future(_answer_to(call))
        self._reading.add(reading)
        reading.add_done_callback(self._read)
        done, _ = await asyncio.wait([reading], timeout=self.patience)
        if not done:
            self.leave(member)
            msg = f"etcd at {self._endpoint(member)} did not answer in time."
            raise Unanswered(msg)
        return reading.result()

    def _read(self, reading: asyncio.Future[Any]) -> None:
        self._reading.discard(reading)
        if not reading.cancelled():
            reading.exception()

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every request: a member that has no leader is to say so, and who we are."""
        if self.address.user is not None and self._token is None:
            await self.log_in(None)
        leader = ("hasleader", "true")
        return (leader,) if self._token is None else (leader, ("token", self._token))

    async def log_in(self, stale: str | None) -> None:
        """Get a token, unless another request has got one meanwhile."""
        async with self._login:
            if self._token != stale:
                return
            request = message("AuthenticateRequest")(name=self.address.user, password=self.address.password)
            answer = await self.call("Auth/Authenticate")(request, timeout=self.patience)
            self._token = answer.token

    def call(self, path: str) -> Any:
        """The function that makes a request to the current member."""
        self.door.check()
        endpoint = self.endpoint
        known = self._calls.get((endpoint, path))
        if known is not None:
            return known
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = self._channels[endpoint] = _connect(endpoint, self.address)
        make = channel.stream_stream if path in (WATCH, "Lease/LeaseKeepAlive") else channel.unary_unary
        made: Any = make(
            f"/etcdserverpb.{path}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=message(_ANSWERS[path]).FromString,
        )
        self._calls[endpoint, path] = made
        return made

    async def close(self) -> None:
        """Let go of all connections."""
        self.door.shut()
        if self._reading:
            await asyncio.wait(self._reading, timeout=1)
        channels, self._channels = list(self._channels.values()), {}
        self._calls.clear()
        for channel in channels:
            await channel.close()


async def _answer_to(call: Any) -> Any:
    return await call


def _connect(endpoint: str, address: Address) -> grpc.aio.Channel:
    if not address.tls:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    ca, key, cert = (
        None if name is None else Path(name).read_bytes() for name in (address.ca, address.key, address.cert)
    )
    return grpc.aio.secure_channel(endpoint, grpc.ssl_channel_credentials(ca, key, cert), options=_OPTIONS)
