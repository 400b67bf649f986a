"""Inputs and outputs: JSON, kept exactly. Nothing is ever pickled or unpickled."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import msgspec
import pydantic

from tenure.errors import InvalidInput

NULL = msgspec.Raw(b"null")

DEPTH_LIMIT = 100
"""How deep lists and objects may be nested: less than any parser on the way back would refuse."""


def _plain(value: Any) -> Any:
    """A text or number of a class of its own, as the plain value that it will come back as."""
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any, field: str = "input") -> msgspec.Raw:
    """The JSON of a value, or a refusal that names the part which is not JSON.

    >>> bytes(to_json({"user": 1, "tags": []}))
    b'{"user":1,"tags":[]}'
    """
    if value is None:
        return NULL
    if type(value) is not dict:
        if isinstance(value, pydantic.BaseModel):
            return _model_json(value, field)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _dataclass_json(value, field)
    _check(value, field, DEPTH_LIMIT)
    try:
        return msgspec.Raw(_encode(value))
    except UnicodeEncodeError as error:
        msg = f"{field} holds text that is not valid Unicode ({error.reason}). Send such bytes as base64."
    except ValueError as error:
        msg = f"{field} holds a number that cannot be written as JSON ({error}). Send it as a string."
    raise InvalidInput(msg)


def from_json(raw: msgspec.Raw) -> Any:
    """The value behind `to_json`."""
    return _decode(raw)


def size(raw: msgspec.Raw) -> int:
    """How many bytes of JSON a value takes."""
    return memoryview(raw).nbytes


def input_hash(raw: msgspec.Raw) -> str:
    """The hash of an input in canonical JSON, so that the order of keys does not matter."""
    return "sha256:" + hashlib.sha256(_encode_sorted(_decode(raw))).hexdigest()


def _model_json(value: pydantic.BaseModel, field: str) -> msgspec.Raw:
    """Pydantic would write NaN as null without a word, so the dumped form is checked like any other."""
    try:
        dumped = value.model_dump(mode="json")
    except (ValueError, TypeError) as error:
        msg = f"{field} of {type(value).__name__} is not JSON: {error}"
        raise InvalidInput(msg) from None
    return to_json(dumped, field)


def _dataclass_json(value: Any, field: str) -> msgspec.Raw:
    try:
        fields = dataclasses.asdict(value)
    except Exception as error:
        msg = f"{field} of {type(value).__name__} is not JSON: {error}"
        raise InvalidInput(msg) from None
    return to_json(fields, field)


_PLAIN = frozenset({str, int, bool, type(None)})
"""Leaves that need no further look, by exact type: the quick way through a usual payload."""


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _check(value: Any, path: str, depth: int) -> None:
    """Walk the value; every leaf must be a type that comes back from JSON as it went in."""
    if not depth:
        msg = f"{path[:60]}… is nested more than {DEPTH_LIMIT} levels deep, or contains itself. Flatten it."
        raise InvalidInput(msg)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                msg = f"{path} has the key {key!r}, which is no string. JSON objects have string keys only."
                raise InvalidInput(msg)
            if type(item) not in _PLAIN and not _is_number(item):
                _check(item, f"{path}.{key}", depth - 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            if type(item) not in _PLAIN and not _is_number(item):
                _check(item, f"{path}[{index}]", depth - 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            msg = f"{path} is {value!r}, which JSON cannot express. Send null or a string instead."
            raise InvalidInput(msg)
    elif value is not None and not isinstance(value, (str, int)):
        msg = (
            f"{path} is {value!r} ({type(value).__name__}), which is not JSON. "
            "Use strings, numbers, booleans, null, lists and objects, or a pydantic model."
        )
        raise InvalidInput(msg)
