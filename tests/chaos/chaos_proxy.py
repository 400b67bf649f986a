"""The way to a server, which can be cut at any request and made slow, in order and without losing a byte otherwise."""

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "postgres"))

from cutting import Proxy, _write


class Way(Proxy):
    """Like `Proxy`, with a delay that may change while things are on their way: nothing overtakes anything."""

    async def _pass_on(self, writer, data):
        if self.delay:
            await asyncio.sleep(self.delay)
        _write(writer, data)
