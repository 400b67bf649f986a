"""A server that ignores conditions: a real one, behind a proxy that takes them out of requests."""

import contextlib
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import aiohttp
import yarl
from aiohttp import web

from tenure.stores.aws.access import Keys
from tenure.stores.aws.signing import signed
from tenure.testing.s3 import CREDENTIALS

KEYS = Keys(*CREDENTIALS.values(), None)


@contextlib.asynccontextmanager
async def without(server, method, header):
    """The address of the server without this header in requests of this method."""

    async def forward(request):
        body = await request.read()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() in ("if-match", "if-none-match")
        }
        if request.method == method:
            headers = {name: value for name, value in headers.items() if name.lower() != header.lower()}
        path, _, query = request.raw_path.partition("?")
        asked = parse_qsl(query, keep_blank_values=True)
        complete = signed(
            KEYS, "s3", "us-east-1", datetime.now(UTC), method=request.method, host=f"127.0.0.1:{server.port}",
            path=path, query=asked, headers=headers, body=body,
        )  # fmt: skip
        async with session.request(
            request.method,
            yarl.URL(f"{server.endpoint}{request.raw_path}", encoded=True),
            headers=complete,
            data=body or None,
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() in ("etag", "date")}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    app = web.Application(client_max_size=64_000_000)
    app.router.add_route("*", "/{rest:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession() as session:
            yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
