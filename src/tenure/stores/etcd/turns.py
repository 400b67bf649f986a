"""Whose turn it is among the tasks of an ordering key.

Every change of such a task leaves a mark (`unsettled/`), and the next claim settles it: the due entry
goes to the first of the line, unless one of them runs. While there is a mark, no task of the key is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import RUNNING, after
from tenure.stores.etcd.requests import KeyValue, get, unmodified, walk
from tenure.stores.etcd.writing import Batch

LIMIT = 50
"""Ordering keys that are settled in one transaction."""


async def settle_turns(db: Database, marks: Sequence[KeyValue]) -> bool:
    """Give the turns of the marked keys; false when something has changed meanwhile, and nothing was given."""
    root = db.layout.root
    keys = [mark.key.removeprefix(root + b"unsettled/") for mark in marks]
    ops = []
    for key in keys:
        line = root + b"line/" + key + b"/"
        ops += [get(root + b"turn/" + key), walk(line, after(line), 1)]
    found = await db.read(ops)
    batch = Batch()
    for mark, key, turns, first in zip(marks, keys, found[::2], found[1::2], strict=True):
        batch.compares.append(unmodified(mark.key, mark.mod_revision))
        batch.deletes.add(mark.key)
        has = turns[0].value if turns else b""
        if has == RUNNING:
            continue
        turn, _, value = (first[0].value if first else b"").partition(b" ")
        if has == turn:
            continue
        if has:
            batch.deletes.add(has)
        if turn:
            lane = b"/".join(turn.removeprefix(root).split(b"/")[1:4])
            batch.puts |= {root + b"turn/" + key: turn, turn: value, root + b"lane/" + lane: b""}
        else:
            batch.deletes.add(root + b"turn/" + key)
    return (await db.commit(batch)).done
