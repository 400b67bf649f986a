"""Inputs and outputs: JSON, kept exactly. Nothing is ever pickled or unpickled."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic_core import to_jsonable_python

from tenure import models
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


def to_json(value: Any) -> msgspec.Raw:
    """The JSON of an input, or a refusal that names the part which would not come back as it went in.

    >>> bytes(to_json({"user": 1, "tags": []}))
    b'{"user":1,"tags":[]}'
    """
    if value is None:
        return NULL
    if type(value) not in _JSON:
        if isinstance(value, msgspec.Raw):
            return _checked_json(value, "input")
        if isinstance(value, pydantic.BaseModel):
            return typed_json(value, models.adapter_of(value))
        if _is_dataclass(value):
            return _dataclass_json(value)
    return _plain_json(value, "input")


def typed_json(value: Any, adapter: pydantic.TypeAdapter[Any]) -> msgspec.Raw:
    """The JSON of an input from which its type reads the same value."""
    try:
        return _kept(value, adapter, by_alias=True)
    except InvalidInput:
        # A field may have an alias for writing that is not one for reading.
        with contextlib.suppress(InvalidInput):
            return _kept(value, adapter, by_alias=False)
        raise


def output_json(value: Any) -> msgspec.Raw:
    """The JSON of an output, or a refusal that names the part which is not JSON.

    Nobody reads it back as its type, so it is what pydantic makes of models and times, with all they show.
    """
    if value is None:
        return NULL
    if type(value) not in _JSON:
        if isinstance(value, msgspec.Raw):
            return _checked_json(value, "output")
        if isinstance(value, pydantic.BaseModel):
            return _plain_json(_shown(value, "output", DEPTH_LIMIT), "output")
    try:
        return _plain_json(value, "output")
    except InvalidInput:
        return _plain_json(_shown(value, "output", DEPTH_LIMIT), "output")


def from_json(raw: msgspec.Raw) -> Any:
    """The value behind `to_json`."""
    return _decode(raw)


def size(raw: msgspec.Raw) -> int:
    """How many bytes of JSON a value takes."""
    return memoryview(raw).nbytes


def input_hash(raw: msgspec.Raw) -> str:
    """The hash of an input in canonical JSON, so that the order of keys does not matter."""
    return "sha256:" + hashlib.sha256(_encode_sorted(_decode(raw))).hexdigest()


def _plain_json(value: Any, field: str) -> msgspec.Raw:
    _check(value, field, DEPTH_LIMIT)
    try:
        return msgspec.Raw(_encode(value))
    except UnicodeEncodeError as error:
        msg = f"{field} holds text that is not valid Unicode ({error.reason}). Send such bytes as base64."
    except ValueError as error:
        msg = f"{field} holds a number that cannot be written as JSON ({error}). Send it as a string."
    raise InvalidInput(msg)


def _checked_json(raw: msgspec.Raw, field: str) -> msgspec.Raw:
    """JSON that was made elsewhere: nobody could read the task if it were none."""
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{field} is msgspec.Raw({bytes(raw)[:40]!r}), which is no JSON that can be read: {error}"
        raise InvalidInput(msg) from None
    _check(value, field, DEPTH_LIMIT)
    return raw


def _kept(value: Any, adapter: pydantic.TypeAdapter[Any], *, by_alias: bool) -> msgspec.Raw:
    name = type(value).__name__
    try:
        plain = models.written(adapter, value, by_alias=by_alias)
    except Exception as error:
        msg = f"input of {name} is not JSON: {said(error)}"
        raise InvalidInput(msg) from error
    raw = _plain_json(plain, "input")
    try:
        again = adapter.validator.validate_json(bytes(raw))
    except Exception as error:
        msg = f"input of {name} is refused by its own type when it is read back from JSON: {said(error)}"
        raise InvalidInput(msg) from error
    if lost := models.difference(value, again, "input"):
        # The value itself is not shown: a field that is not written may well be a secret.
        msg = (
            f"{lost.path} of {name} is lost in JSON: its handler would get {repr(lost.other)[:80]} "
            f"({type(lost.other).__name__}) instead of the {type(lost.one).__name__} that was submitted. "
            "Submit only what is written in full and read as the same: no secret or excluded fields, "
            "no fields of a subclass, no validator that changes what it has read."
        )
        raise InvalidInput(msg)
    return raw


def said(error: Exception) -> str:
    """What code of a user raised while it read or wrote a value; pydantic's own errors need no name."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _dataclass_json(value: Any) -> msgspec.Raw:
    """Its fields, if they are JSON; else what its annotations make of them."""
    if is_pydantic_dataclass(type(value)):
        return typed_json(value, models.adapter_of(value))
    try:
        fields = dataclasses.asdict(value)
    except Exception as error:
        msg = f"input of {type(value).__name__} is not JSON: {said(error)}"
        raise InvalidInput(msg) from error
    try:
        return _plain_json(fields, "input")
    except InvalidInput:
        # A class that pydantic cannot read has no other form.
        with contextlib.suppress(InvalidInput, pydantic.errors.PydanticUserError, NameError):
            return typed_json(value, models.adapter_of(value))
        raise


def _shown(value: Any, path: str, depth: int) -> Any:
    """The value with what pydantic writes as JSON in place of models, dataclasses and times."""
    if not depth:
        raise _too_deep(path)
    if isinstance(value, dict):
        return {key: _shown(item, f"{path}.{key}", depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(item, f"{path}[{index}]", depth - 1) for index, item in enumerate(value)]
    if _is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _shown(fields, path, depth)
    if not isinstance(value, (pydantic.BaseModel, *_SHOWN)):
        return value
    try:
        return value.model_dump(mode="json") if isinstance(value, pydantic.BaseModel) else to_jsonable_python(value)
    except Exception as error:
        msg = f"{path} of {type(value).__name__} is not JSON: {said(error)}"
        raise InvalidInput(msg) from error


_SHOWN = (date, time, timedelta, UUID, Decimal, Enum)


_JSON = frozenset({dict, list, str, int, bool, float})
"""What is no model, whatever it holds."""

_PLAIN = frozenset({str, int, bool, type(None)})
"""Leaves that need no further look, by exact type: the quick way through a usual payload."""


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _too_deep(path: str) -> InvalidInput:
    return InvalidInput(f"{path[:60]}… is nested more than {DEPTH_LIMIT} levels deep, or contains itself. Flatten it.")


def _check(value: Any, path: str, depth: int) -> None:
    """Walk the value; every leaf must be a type that comes back from JSON as it went in."""
    if not depth:
        raise _too_deep(path)
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
