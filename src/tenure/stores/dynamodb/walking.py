"""Several partitions of an index as one list in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tenure.stores.dynamodb.keys import KEYS_OF
from tenure.stores.dynamodb.table import Table
from tenure.stores.dynamodb.wire import Item


async def merged(table: Table, index: str, pks: list[str], *, forward: bool = True, **how: Any) -> AsyncIterator[Item]:
    """The entries of all partitions by their sort keys; the first pages are fetched at once."""
    sort = KEYS_OF[index][1]
    pages = [table.walk(pk, index=index, forward=forward, **how) for pk in pks]
    heads = [list(reversed(page)) for page in await asyncio.gather(*(_next_page(page) for page in pages))]
    while True:
        ready = [place for place, head in enumerate(heads) if head]
        if not ready:
            return
        choose = min if forward else max
        place = choose(ready, key=lambda place: heads[place][-1][sort])
        yield heads[place].pop()
        if not heads[place]:
            heads[place] = list(reversed(await _next_page(pages[place])))


async def _next_page(pages: AsyncIterator[list[Item]]) -> list[Item]:
    return await anext(pages, [])
