"""Parts of a transaction: what to read, to write, and to compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tenure.stores.etcd.wire import message

Range, Put, Delete = message("RangeRequest"), message("PutRequest"), message("DeleteRangeRequest")
Op, Comparison, Txn = message("RequestOp"), message("Compare"), message("TxnRequest")

OPS_LIMIT = 128
"""The most operations of one transaction that a server takes unless it is told otherwise."""

_EQUAL, _LESS = 0, 2
_VERSION, _CREATED, _MODIFIED = 0, 1, 2
_DESCENDING = 2


class KeyValue(Protocol):
    """A stored key as etcd shows it."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int


def get(key: bytes) -> Any:
    """Read one key."""
    return Op(request_range=Range(key=key))


def walk(start: bytes, end: bytes, limit: int = 0, *, keys_only: bool = False, backwards: bool = False) -> Any:
    """Read the keys from `start` up to, and without, `end`."""
    return Op(
        request_range=Range(
            key=start, range_end=end, limit=limit, keys_only=keys_only, sort_order=_DESCENDING if backwards else 0
        )
    )


def put(key: bytes, value: bytes, lease: int = 0) -> Any:
    """Write one key."""
    return Op(request_put=Put(key=key, value=value, lease=lease))


def delete(key: bytes) -> Any:
    """Delete one key, if it is there."""
    return Op(request_delete_range=Delete(key=key))


def unmodified(key: bytes, revision: int) -> Any:
    """The key was written last at this revision; 0: it is not there."""
    return Comparison(result=_EQUAL, target=_MODIFIED, key=key, mod_revision=revision)


def unmodified_since(key: bytes, revision: int) -> Any:
    """The key was not written after this revision."""
    return Comparison(result=_LESS, target=_MODIFIED, key=key, mod_revision=revision + 1)


def created_at(key: bytes, revision: int) -> Any:
    """The key is still the one that was made at this revision; 0: it is not there."""
    return Comparison(result=_EQUAL, target=_CREATED, key=key, create_revision=revision)


def none_created_since(start: bytes, end: bytes, revision: int) -> Any:
    """No key of the range was made after this revision."""
    return Comparison(result=_LESS, target=_CREATED, key=start, range_end=end, create_revision=revision + 1)


def none_in(start: bytes, end: bytes) -> Any:
    """The range is empty."""
    return Comparison(result=_EQUAL, target=_CREATED, key=start, range_end=end, create_revision=0)


def written_times(key: bytes, times: int) -> Any:
    """The key was written so many times since it was made; 0: it is not there."""
    return Comparison(result=_EQUAL, target=_VERSION, key=key, version=times)


def nested(ops: Sequence[Any], conditions: int) -> Sequence[Any]:
    """More operations than one transaction takes, as transactions within it: together they are still one.

    A server counts conditions and operations of each level, and takes as many below as the level above has left.
    """
    if len(ops) <= OPS_LIMIT:
        return ops
    size = min(OPS_LIMIT // 2, OPS_LIMIT - conditions)
    return [Op(request_txn=Txn(success=ops[start : start + size])) for start in range(0, len(ops), size)]


def answers(responses: Sequence[Any]) -> Iterator[Any]:
    """The answers to all operations in order, however they were nested."""
    for response in responses:
        if response.HasField("response_txn"):
            yield from answers(response.response_txn.responses)
        else:
            yield response
