"""Ways between members, and from clients to members, that can be cut or made silent."""

import asyncio
import contextlib
import threading

from tenure.testing.ports import free_port


class Way:
    """Passes connections on to a port.

    `cut()` ends them and refuses new ones; `mute()` lets everything through to the server and nothing back;
    `heal()` lets new ones through again.
    """

    def __init__(self, target, admits=lambda first_words: True):
        self.target, self.admits = target, admits
        self.port = free_port()
        self.muted = self.is_cut = False
        self.bytes_in = 0
        self._connections = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        return self

    def __exit__(self, *_):
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self):
        self.is_cut = True
        self.drop()

    def mute(self):
        self.muted = True

    def heal(self):
        """What was muted is lost: whoever waits for it must connect anew."""
        was_muted, self.muted, self.is_cut = self.muted, False, False
        if was_muted:
            self.drop()

    def drop(self, ends=lambda first_words: True):
        """End the connections from these sources."""
        self._do(self._drop(ends))

    def _do(self, call):
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(10)

    async def _close(self):
        self._server.close()
        await self._drop(lambda source: True)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)

    async def _drop(self, ends):
        for writers, source in list(self._connections.items()):
            if ends(source):
                for writer in writers:
                    writer.transport.abort()

    async def _serve(self, reader, writer):
        source = b""
        with contextlib.suppress(ConnectionError):
            source = await reader.read(1 << 16)
        if self.is_cut or not source or not self.admits(source):
            writer.transport.abort()
            return
        self.bytes_in += len(source)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        writers = (writer, server_writer)
        self._connections[writers] = source
        server_writer.write(source)
        pipes = [
            asyncio.ensure_future(self._pass_on(reader, server_writer, back=False)),
            asyncio.ensure_future(self._pass_on(server_reader, writer, back=True)),
        ]
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        for each in writers:
            each.transport.abort()
        self._connections.pop(writers, None)

    async def _pass_on(self, reader, writer, *, back):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if not back:
                    self.bytes_in += len(data)
                if not (back and self.muted):
                    writer.write(data)
                    await writer.drain()


class Network:
    """The ways by which the members of a cluster find each other. One can be cut off from the rest."""

    def __init__(self, cluster):
        self.cluster, self.alone = cluster, None
        self.ways = {}
        cluster.network = self

    def __enter__(self):
        for member in self.cluster.members:
            way = Way(member.peer_port, lambda source, member=member: self._may(source, member))
            self.ways[member.name] = way.__enter__()
            member.peer_url = f"http://127.0.0.1:{way.port}"
        return self

    def __exit__(self, *_):
        for way in self.ways.values():
            way.__exit__()

    def isolate(self, member):
        """Cut this member off from all others."""
        lines = [line.split(", ") for line in self.cluster.control("member", "list").splitlines()]
        (number,) = [fields[0] for fields in lines if fields[2] == member.name]
        self.alone = member, f"X-Server-From: {number}\r\n".encode()
        for each in self.cluster.members:
            self.ways[each.name].drop(lambda first_words, each=each: not self._may(first_words, each))

    def heal(self):
        self.alone = None

    def _may(self, first_words, member):
        """Members speak HTTP among each other, and say who they are in every request."""
        return self.alone is None or (member is not self.alone[0] and self.alone[1] not in first_words)
