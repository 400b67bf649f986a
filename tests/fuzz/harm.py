"""What can be wrong with a stored record: anything, or nearly nothing."""

import json

from hypothesis import strategies as st

FIELDS = (
    "id", "task_type", "created_at", "available_at", "queue", "status", "version", "input", "output", "priority",
    "ordering_key", "tags", "expires_at", "started_at", "completed_at", "failed_at", "fence", "worker_id",
    "lease_expires_at", "attempts", "max_attempts", "limit", "retry", "timeout", "reschedules", "max_reschedules",
    "last_error", "cancel_requested", "progress", "idempotency_key", "remember_until", "headers", "history", "created",
    "format", "until", "reason", "value", "updated_at", "key", "key_hash", "scope", "kind", "state", "task_id",
)  # fmt: skip
STATUSES = ("pending", "running", "completed", "failed", "cancelled", "expired", "archived", "asleep")
TIMES = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-01-28T12:00:00", "2026-13-01T00:00:00Z", "")

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(STATUSES + TIMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), values, min_size=1, max_size=4)


@st.composite
def harms(draw):
    """A function that harms a record."""
    kind = draw(st.sampled_from(["fields", "fields", "gone", "cut", "flipped", "anything"]))
    if kind == "fields":
        changed = draw(fields)
        return lambda record: json.dumps(json.loads(record) | changed).encode()
    if kind == "gone":
        names = draw(st.sets(st.sampled_from(FIELDS), min_size=1, max_size=5))
        return lambda record: json.dumps({n: v for n, v in json.loads(record).items() if n not in names}).encode()
    if kind == "cut":
        part = draw(st.floats(0, 1))
        return lambda record: record[: int(len(record) * part)]
    if kind == "flipped":
        place, byte = draw(st.integers(0, 10_000)), draw(st.integers(0, 255))
        return lambda record: record[: place % len(record)] + bytes([byte]) + record[place % len(record) + 1 :]
    anything = draw(st.binary(max_size=200))
    return lambda record: anything
