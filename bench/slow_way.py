"""A way to a server on this machine that takes as long as a network: python bench/slow_way.py PORT SECONDS

Says which port leads there, and passes everything on that much later in each direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def main(target: int, delay: float) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target, limit=1 << 20)
        await asyncio.gather(_pipe(reader, server_writer, delay), _pipe(server_reader, writer, delay))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    # Whoever is killed while it talks resets its connection: that is its end, like any other.
    with contextlib.suppress(ConnectionResetError):
        while data := await reader.read(1 << 20):
            if delay:
                loop.call_later(delay, writer.write, data)
            else:
                writer.write(data)
    loop.call_later(delay, writer.close)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
