"""The one place that signs, sends, waits, and tries again.

An answer is whatever the server said, refusals included: what they mean, the store knows. What
is no answer (a lost connection, too much traffic, an error inside the server) is tried again, and
when that does not help it is one exception, which says whether the request may have taken effect.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tenure.errors import StoreUnavailable
from tenure.stores.aws.access import Access, Place
from tenure.stores.aws.clock import ServerClock
from tenure.stores.aws.signing import signed, written
from tenure.stores.aws.transport import AnswerLost, HttpTransport, NotSent, Reply, Transport

ATTEMPTS = 8
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException", "ThrottlingException", "ThrottledException", "RequestLimitExceeded",
        "RequestThrottled", "RequestThrottledException", "TooManyRequestsException", "SlowDown", "Throttling",
        "BandwidthLimitExceeded", "TransactionInProgressException",
    }
)  # fmt: skip
"""Codes of requests that were turned away before anything happened."""
SKEWED = frozenset({"RequestTimeTooSkewed", "InvalidSignatureException", "SignatureDoesNotMatch", "RequestExpired"})
"""Codes of requests whose signature may be made with a wrong time; the answer tells the right one."""
WITHOUT_BODY = (204, 304)
"""Answers that may tell the length of something that they do not bring along."""
_XML_CODE = re.compile(rb"<Code>([^<]*)</Code>")


class AwsUnavailable(StoreUnavailable):
    """No answer could be had. Unless `may_have_taken_effect`, the request certainly changed nothing."""

    def __init__(self, message: str, *, may_have_taken_effect: bool) -> None:
        super().__init__(message)
        self.may_have_taken_effect = may_have_taken_effect


class Request(msgspec.Struct, frozen=True):
    """One request. `path` is already quoted; `read` makes a value of the body, or raises ValueError when it is cut."""

    operation: str
    method: str = "POST"
    path: str = "/"
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""
    read: Callable[[bytes], Any] | None = None


class Answer(msgspec.Struct, frozen=True):
    """What the server said.

    When `repeated`, an earlier sending of the same request may have taken effect without an
    answer: a refused condition can then be the request's own doing.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    value: Any = None
    repeated: bool = False

    @property
    def ok(self) -> bool:
        """Whether the server did what it was asked."""
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The server's word for what is wrong."""
        return "" if self.ok else code_of(self.body)


def code_of(body: bytes) -> str:
    """The code in an error's body, be it JSON or XML.

    >>> code_of(b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}')
    'ThrottlingException'
    >>> code_of(b"<Error><Code>SlowDown</Code></Error>")
    'SlowDown'
    """
    if body.lstrip()[:1] == b"{":
        try:
            return str(msgspec.json.decode(body).get("__type", "")).rpartition("#")[2]
        except msgspec.DecodeError:
            return ""
    found = _XML_CODE.search(body)
    return found[1].decode(errors="replace") if found else ""


class AwsClient:
    """Requests to one service on one event loop.

    `counts` says how many requests of which operation were sent, the repeated ones included.
    """

    def __init__(
        self,
        access: Access,
        *,
        connections: int = 64,
        timeout: float = 10.0,
        clock: ServerClock | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.access = access
        self.clock = clock or ServerClock()
        self.transport: Transport = transport or HttpTransport(connections, timeout)
        self.counts: Counter[str] = Counter()
        self.pauses = (FIRST_PAUSE, LONGEST_PAUSE)
        self._how = connections, timeout
        self._random = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._lock = threading.Lock()

    def twin(self) -> AwsClient:
        """A client for the event loop of another thread, with the same way in, clock and counts."""
        twin = AwsClient(self.access, connections=self._how[0], timeout=self._how[1], clock=self.clock)
        twin.counts, twin._lock, twin.pauses = self.counts, self._lock, self.pauses
        return twin

    async def send(self, request: Request) -> Answer:
        """Send until there is an answer, with growing pauses of random length; at most so many times."""
        place = await self.access.place()
        may_have, trouble, corrected = False, "", False
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(self._random.uniform(0, min(self.pauses[0] * 2 ** (attempt - 1), self.pauses[1])))
            try:
                reply = await self._exchange(request, place)
                value = request.read(reply.body) if request.read is not None and reply.status < 300 else None
            except NotSent as error:
                trouble = f"cannot be reached: {error}"
                continue
            except AnswerLost as error:
                trouble, may_have = f"did not answer: {error}", True
                continue
            except ValueError as error:
                trouble, may_have = f"answered with something that cannot be read: {error}", True
                continue
            answer = Answer(reply.status, reply.headers, reply.body, value, may_have)
            if reply.status < 400:
                return answer
            code = answer.code
            if code in THROTTLED or reply.status == 429:
                trouble = f"is asked too much ({code or reply.status})"
            elif reply.status >= 500:
                trouble, may_have = f"has trouble inside ({code or reply.status})", True
            elif code in SKEWED and not corrected:
                # The answer has told the right time: sign once more with that.
                trouble, corrected = f"does not accept the signature ({code})", True
            else:
                return answer
        msg = f"{self.access.service} at {place.endpoint} {trouble}."
        raise AwsUnavailable(msg, may_have_taken_effect=may_have)

    async def _exchange(self, request: Request, place: Place) -> Reply:
        keys = await self.access.keys()
        moment = self.clock.now() if self.clock.known else datetime.now(UTC)
        parts = urlsplit(place.endpoint)
        headers = signed(
            keys,
            self.access.service,
            place.region,
            moment,
            method=request.method,
            host=parts.netloc,
            path=parts.path + request.path,
            query=request.query,
            headers=request.headers,
            body=request.body,
        )
        asked = f"?{written(request.query)}" if request.query else ""
        with self._lock:
            self.counts[request.operation] += 1
        sent = self.clock.monotonic()
        reply = await self.transport.exchange(
            request.operation, request.method, f"{place.endpoint}{request.path}{asked}", headers, request.body
        )
        self.clock.hear(reply.headers.get("Date"), sent, self.clock.monotonic())
        if request.method != "HEAD" and reply.status not in WITHOUT_BODY and _is_cut(reply):
            msg = "the answer was cut"
            raise AnswerLost(msg)
        return reply

    async def close(self) -> None:
        """Let go of the connections; a later request opens new ones."""
        await self.transport.close()


def _is_cut(reply: Reply) -> bool:
    length = reply.headers.get("Content-Length", "")
    return length.isdecimal() and len(reply.body) < int(length)
