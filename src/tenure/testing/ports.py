"""Ports for the servers of a test."""

from __future__ import annotations

import os
import random
import socket
from collections import deque

# Below what Linux gives to outgoing connections: one of those could take the port before the server does.
FIRST, LAST = 10_000, 32_000
SHARES = 16
"""Processes that run tests side by side, each with ports of its own, as long as their numbers follow each other."""
_given: deque[int] = deque(maxlen=500)
"""Nobody may listen there yet."""


def free_port() -> int:
    """A port of this machine that nobody uses at this moment."""
    rolls = random.SystemRandom()  # A seed of the tests would give the same port to all their processes.
    while True:
        port = rolls.choice(range(FIRST + os.getpid() % SHARES, LAST, SHARES))
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.append(port)
        return port
