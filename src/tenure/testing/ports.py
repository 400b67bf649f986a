"""Ports for the servers of a test."""

from __future__ import annotations

import random
import socket

# Below what Linux gives to outgoing connections: one of those could take the port before the server does.
PORTS = range(10_000, 32_000)


def free_port() -> int:
    """A port of this machine that nobody uses at this moment."""
    rolls = random.SystemRandom()  # A seed of the tests would give the same port to all their processes.
    while True:
        port = rolls.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
