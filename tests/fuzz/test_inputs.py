"""Any Python value as an input is kept exactly or refused, and any file as an import as well."""

import contextlib
import io
import json

from budget import searched
from harm import harms, values
from hypothesis import given
from hypothesis import strategies as st

from tenure import InvalidInput, TenureError, connect, transfer
from tenure.payload import from_json, to_json
from tenure.submission import Form

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=4)
    | st.datetimes() | st.complex_numbers() | st.just(object()) | st.just({1}) | st.just(float),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    | st.tuples(inner),
    max_leaves=8,
)  # fmt: skip


@searched
@given(odd)
def test_any_value_is_kept_or_refused(value):
    with contextlib.suppress(InvalidInput):
        raw = to_json(value)
        assert json.loads(bytes(raw)) == from_json(raw)


OPTIONS = (
    "queue", "delay", "schedule_at", "ttl", "ttl_seconds", "expires_at", "priority", "tags", "headers", "timeout",
    "max_attempts", "max_retries", "retry", "ordering_key", "idempotency_key", "idempotency_scope", "idempotency_ttl",
    "slot", "task_id", "max_reschedules", "unheard_of",
)  # fmt: skip


@searched
@given(options=st.dictionaries(st.sampled_from(OPTIONS), odd, max_size=4), type_=odd)
def test_any_options_of_a_submit_are_taken_or_refused_by_name(options, type_):
    from datetime import UTC, datetime

    with contextlib.suppress(InvalidInput):
        Form.read(options, datetime(2026, 1, 28, tzinfo=UTC)).fill(type_, None, 1000)


async def exported():
    async with connect("memory://") as queue:
        for number in range(3):
            await queue.submit("job", number, idempotency_key=str(number))
        file = io.BytesIO()
        await transfer.export(queue, file)
    return file.getvalue().splitlines(keepends=True)


async def test_any_harmed_export_is_imported_or_refused_in_words():
    lines = await exported()

    @searched
    @given(place=st.integers(0, 7), harm=harms(), more=values)
    def search(place, harm, more):
        found = list(lines)
        line = found[place % len(found)]
        with contextlib.suppress(ValueError):
            found[place % len(found)] = harm(line) + b"\n"
        found.append(json.dumps(more).encode() + b"\n")
        files.append(b"".join(found))

    files = []
    search()
    for file in files:
        with contextlib.suppress(TenureError):
            transfer.check(io.BytesIO(file))
        with contextlib.suppress(TenureError):
            async with connect("memory://") as queue:
                await transfer.take_in(queue, io.BytesIO(file))
