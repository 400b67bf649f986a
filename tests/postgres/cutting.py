"""A way to the server that can be cut at any request, before or after it took effect, and made slow."""

import asyncio
import contextlib


class Proxy:
    """Passes everything on. `cut(n, when)` ends the connection at the nth request that comes after it.

    "before": the server never sees that request. "after": it does, and its answer is lost.
    `delay` seconds are added to each direction of the way.
    """

    def __init__(self, port, delay=0.0):
        self.target = port
        self.delay = delay
        self.requests = 0
        self.cuts = 0
        self._nth = self._when = None
        self._writers = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    @property
    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def cut(self, nth, when):
        self._nth, self._when = self.requests + nth, when

    async def _serve(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, server_writer}
        self._writers |= both
        lost = asyncio.Event()
        pipes = [
            asyncio.ensure_future(self._requests(reader, server_writer, lost)),
            asyncio.ensure_future(self._answers(server_reader, writer, lost)),
        ]
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        for each in both:
            each.transport.abort()
        self._writers -= both

    async def _requests(self, reader, writer, lost):
        while data := await self._read(reader):
            self.requests += 1
            if self.requests == self._nth:
                self.cuts += 1
                if self._when == "before":
                    return
                lost.set()
            await self._pass_on(writer, data)

    async def _answers(self, reader, writer, lost):
        while data := await self._read(reader):
            if lost.is_set():
                return
            await self._pass_on(writer, data)

    async def _read(self, reader):
        with contextlib.suppress(ConnectionError):
            return await reader.read(1 << 20)

    async def _pass_on(self, writer, data):
        if self.delay:
            # Later pieces wait for earlier ones, and all of them for as long as the way takes.
            asyncio.get_running_loop().call_later(self.delay, _write, writer, data)
        else:
            _write(writer, data)


def _write(writer, data):
    if not writer.transport.is_closing():
        writer.write(data)
