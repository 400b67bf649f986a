"""What can happen to requests between a store and its server."""

import asyncio

from tenure.stores.aws.transport import NotSent, Reply
from tenure.testing.aws import Fault, FaultyTransport

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
WRITES = ("PUT", "DELETE")


class S3Faults(FaultyTransport):
    """Refuses in the words of S3."""

    async def exchange(self, operation, method, url, headers, body):
        fault = self.plan(operation, body)
        if fault is Fault.Throttled:
            self.happened.append((operation, fault))
            return Reply(503, {}, SLOW_DOWN)
        inner = FaultyTransport(self.inner, lambda *_: fault)
        try:
            return await inner.exchange(operation, method, url, headers, body)
        finally:
            self.happened += inner.happened


def trouble(store, plan):
    store.client.transport = line = S3Faults(store.client.transport, plan)
    return line


class CutLine:
    """A line that is cut for ever at the n-th write, before or after it took effect: what a death at that point looks like."""

    def __init__(self, inner, at, *, after):
        self.inner, self.at, self.after = inner, at, after
        self.writes = 0
        self.cut = False

    async def exchange(self, operation, method, url, headers, body):
        if self.cut:
            raise NotSent("dead")
        if operation not in WRITES:
            return await self.inner.exchange(operation, method, url, headers, body)
        self.writes += 1
        if self.writes == self.at:
            self.cut = True
            if self.after:
                await self.inner.exchange(operation, method, url, headers, body)
            raise NotSent("dead")
        return await self.inner.exchange(operation, method, url, headers, body)

    async def close(self):
        await self.inner.close()


def dies_at(store, at, *, after):
    store.client.transport = line = CutLine(store.client.transport, at, after=after)
    return line


class OvertakenLine:
    """The answer to the n-th write comes later than that to the next listing, which shows what was written.

    It never comes before `free` is set, as it is at first.
    """

    def __init__(self, inner, at):
        self.inner, self.at = inner, at
        self.writes = 0
        self.written, self.listed, self.free = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.free.set()

    async def exchange(self, operation, method, url, headers, body):
        self.writes += operation in WRITES
        if operation in WRITES and self.writes == self.at:
            reply = await self.inner.exchange(operation, method, url, headers, body)
            self.written.set()
            await self.listed.wait()
            await self.free.wait()
            for _ in range(100):
                # Whoever has asked for the listing does what it does with it.
                await asyncio.sleep(0)
            return reply
        if operation == "LIST" and self.writes >= self.at - 1:
            await self.written.wait()
            reply = await self.inner.exchange(operation, method, url, headers, body)
            self.listed.set()
            return reply
        return await self.inner.exchange(operation, method, url, headers, body)

    async def close(self):
        await self.inner.close()


def overtaken_at(store, at):
    store.client.transport = line = OvertakenLine(store.client.transport, at)
    return line
