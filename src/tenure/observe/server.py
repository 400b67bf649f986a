"""`/metrics`, `/livez` and `/readyz` over HTTP, from a thread of its own: it answers when the event loop does not."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tenure.errors import InvalidInput, MissingExtra
from tenure.observe.health import Signs

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder
except ModuleNotFoundError:
    raise MissingExtra("A port for metrics", "metrics") from None


log = logging.getLogger("tenure.observe")

CONNECTIONS = 32
PATIENCE = 10.0
"""Seconds that a connection may say nothing, or take nothing."""


class Server:
    """Serves until it is closed. `address` is `PORT` or `HOST:PORT`; port 0 picks a free one."""

    def __init__(self, address: str, registry: CollectorRegistry, signs: Signs) -> None:
        host, port = read_address(address)
        handler = type("Handler", (_Handler,), {"registry": registry, "signs": signs})
        try:
            self._server = _Listening((host, port), handler)
        except OSError as error:
            msg = f"Cannot listen on {address!r} for metrics: {error.strerror}. Give another port."
            raise InvalidInput(msg) from None
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="tenure-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def read_address(address: str) -> tuple[str, int]:
    """The host and the port of an address.

    >>> read_address("9000"), read_address("127.0.0.1:9000"), read_address("[::1]:9000")
    (('', 9000), ('127.0.0.1', 9000), ('::1', 9000))
    """
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not port.isdecimal() or int(port) > 65535 or (":" in host and bare == host):
        msg = f"{address!r} is no port for metrics. Write 9000, 127.0.0.1:9000, or [::1]:9000."
        raise InvalidInput(msg)
    return bare, int(port)


class _Listening(ThreadingHTTPServer):
    """A thread for each of a bounded number of connections; who comes beyond those is turned away."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base's
        """A scraper that hung up is no news; anything else is one record, not lines among others' on the error stream."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            log.error("a request from %s could not be answered", client_address[0], exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    signs: Signs
    timeout = PATIENCE

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, encode(self.registry), kind)
        elif path in ("/livez", "/readyz"):
            trouble = self.signs.not_live() if path == "/livez" else self.signs.not_ready()
            self._answer(503 if trouble else 200, f"{trouble or 'ok'}\n".encode())
        else:
            self._answer(404, b"Here are /metrics, /livez and /readyz.\n")

    do_HEAD = do_GET  # noqa: N815 - the base's name

    def _answer(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base's name
        """A scrape is no news."""
