"""Fields that a newer Tenure has added to its records are carried along by an older one.

Records are read strictly, which costs nothing. Only one with an unknown field is read again,
into a class of its own which has that field, too, as JSON that nobody reads: every transition
keeps it, because it replaces other fields, and every encoder writes it like the others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

MOST = 50
"""Unknown fields in one record; with more it is no record of any Tenure."""
PREFIX = "unknown_"


class Reader(Generic[T]):
    """Reads records of one kind, a Struct with `forbid_unknown_fields`."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._known = {field.encode_name for field in msgspec.structs.fields(kind)}
        self._strict = msgspec.json.Decoder(kind)

    def decode(self, record: bytes | str | msgspec.Raw) -> T:
        """The record; msgspec's own error if it cannot be read."""
        try:
            return self._strict.decode(record)
        except msgspec.ValidationError:
            names = unknown_names(record, self._known)
            if not names:
                raise
        return cast("T", _decoder(self._kind, names).decode(record))


def unknown_names(record: bytes | str | msgspec.Raw, known: set[str]) -> tuple[str, ...]:
    """The fields of a record that are not among the known ones, if it is an object with a sensible number of them."""
    fields = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
    names = tuple(sorted(fields.keys() - known))
    return names if len(names) <= MOST else ()


def like(kind: type[T], record: msgspec.Struct) -> tuple[type[T], dict[str, msgspec.Raw]]:
    """The kind of record that has the unknown fields of another record, too; and these, by attribute."""
    if not record.__struct_fields__[-1].startswith(PREFIX):
        return kind, {}
    unknown = [field for field in msgspec.structs.fields(record) if field.name.startswith(PREFIX)]
    wider = _with_fields(kind, tuple(field.encode_name for field in unknown))
    return wider, {field.name: getattr(record, field.name) for field in unknown}


@lru_cache(maxsize=100)
def _with_fields(kind: type[T], names: tuple[str, ...]) -> type[T]:
    """A kind of record that has some fields more."""
    fields = [(f"{PREFIX}{number}", msgspec.Raw, msgspec.field(name=name)) for number, name in enumerate(names)]
    config = kind.__struct_config__
    try:
        wider = msgspec.defstruct(
            kind.__name__,
            fields,
            bases=(kind,),
            module=kind.__module__,
            kw_only=True,
            frozen=config.frozen,
            omit_defaults=config.omit_defaults,
            gc=config.gc,
        )
    except ValueError as error:  # a name that no field can have, like one with a quotation mark
        raise msgspec.ValidationError(str(error)) from None
    return cast("type[T]", wider)


@lru_cache(maxsize=100)
def _decoder(kind: type[msgspec.Struct], names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_with_fields(kind, names))
