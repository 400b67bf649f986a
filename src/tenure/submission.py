"""From a producer's words to the first version of a task. Bad words are refused here, before any write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypedDict, cast, get_type_hints

import msgspec

from tenure import arguments, idempotency, ids, lifecycle, payload, times
from tenure.errors import InvalidInput
from tenure.idempotency import Kind, Reservation
from tenure.retry import COUNT_LIMIT, RetryPolicy, within_bounds
from tenure.task import Task

TAGS_LIMIT = 20
HEADERS_LIMIT = 16_384
"""Bytes: room for the context of a trace with its baggage, and no burden in the record of any store."""
PRIORITY_LIMIT = 32_767
DEFAULT_KEEP = timedelta(days=30)
BATCH_SIZE_LIMIT = 256_000_000
"""Bytes of JSON in one batch: what every store can take at once, and in less time than a call may take."""


class SubmitOptions(TypedDict, total=False):
    """Everything a producer can say about a task beside its type and input."""

    queue: str
    priority: int
    ordering_key: str | None
    tags: Sequence[str]
    schedule_at: datetime | None
    run_at: datetime | None
    scheduled_for: datetime | None
    delay: float | timedelta | None
    expires_at: datetime | None
    ttl: float | timedelta | None
    ttl_seconds: float | None
    task_id: str | None
    idempotency_key: str | None
    idempotency_scope: str
    idempotency_ttl: float | timedelta | None
    idempotency_ttl_days: float | None
    slot: tuple[str, date | str] | None
    max_attempts: int | None
    max_retries: int | None
    retry: RetryPolicy | None
    timeout: float | timedelta | None
    max_reschedules: int | None
    headers: Mapping[str, str] | None


KNOWN_OPTIONS = frozenset(get_type_hints(SubmitOptions))

DUE = ("schedule_at", "run_at", "scheduled_for", "delay")
DEADLINE = ("expires_at", "ttl", "ttl_seconds")
LIMIT = ("max_attempts", "max_retries")
KEEP = ("idempotency_ttl", "idempotency_ttl_days")
"""The words for one thing each, of which at most one may be given."""


def with_own(common: SubmitOptions, own: SubmitOptions) -> SubmitOptions:
    """A task's own word for a thing stands before every common word for it; headers of both are kept."""
    if not isinstance(own, Mapping):
        msg = f"options={arguments.shown(own)} of a task in a batch must be a dictionary, like {{'priority': 5}}."  # type: ignore[unreachable]
        raise InvalidInput(msg)
    silenced = {name for group in (DUE, DEADLINE, LIMIT, KEEP) if not own.keys().isdisjoint(group) for name in group}
    options: dict[str, Any] = {name: value for name, value in common.items() if name not in silenced} | own
    if common.get("headers") and isinstance(headers := own.get("headers"), Mapping):
        options["headers"] = {**(common.get("headers") or {}), **headers}
    return cast("SubmitOptions", options)


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A task to insert if it is absent, and the reservation that goes with it.

    `chosen_id` tells an id that the producer picked, and may pick again, from one made up here.
    """

    task: Task
    reservation: Reservation | None = None
    chosen_id: bool = False

    @property
    def size(self) -> int:
        """The bytes of its input."""
        return payload.size(self.task.input_json)

    def under(self, task_id: str) -> Submission:
        """The same submission with another id."""
        task = msgspec.structs.replace(self.task, id=task_id)
        reservation = self.reservation and msgspec.structs.replace(self.reservation, task_id=task_id)
        return Submission(task, reservation, self.chosen_id)


class Form(msgspec.Struct, frozen=True):
    """Checked options, ready to be filled in with a type and an input: one form serves a whole batch."""

    options: SubmitOptions
    now: datetime
    words: dict[str, Any]
    plain: bool
    batch: ids.Batch
    drafts: dict[str, Task] = msgspec.field(default_factory=dict)
    """By type: what all tasks of that type which are made from this form have in common."""

    @classmethod
    def read(cls, options: SubmitOptions, now: datetime) -> Form:
        """Check the options; `now` is the store's time."""
        if not options:
            return cls(options, now, {"available_at": now}, plain=True, batch=ids.Batch(now))
        if unknown := set(options) - KNOWN_OPTIONS:
            msg = f"Unknown option {', '.join(sorted(map(str, unknown)))}. Known: {', '.join(sorted(KNOWN_OPTIONS))}."
            raise InvalidInput(msg)
        words = _rest(options) | {
            "queue": arguments.name("queue", options.get("queue", "default")),
            "available_at": _available_at(options, now),
            "expires_at": _expires_at(options, now),
        }
        _keep(options)
        _scope(options)
        plain = all(options.get(name) is None for name in ("task_id", "idempotency_key", "slot"))
        return cls(options, now, words, plain, ids.Batch(now))

    def fill(self, type: str, input: Any, size_limit: int) -> Submission:  # noqa: A002 - the contract's names
        """The submission of one task."""
        return self.fill_json(type, payload.to_json(input), size_limit)

    def fill_json(self, type: str, raw: msgspec.Raw, size_limit: int) -> Submission:  # noqa: A002
        """The submission of one task whose input is known to be JSON."""
        if (size := payload.size(raw)) > size_limit:
            msg = f"input has {size} bytes of JSON; this store takes up to {size_limit}. Keep it elsewhere and submit a reference."
            raise InvalidInput(msg)
        draft = self.drafts.get(type) if isinstance(type, str) else None
        if draft is None:
            draft = lifecycle.submit(now=self.now, id="", type=arguments.name("type", type), **self.words)
            self.drafts[type] = draft
        chosen_id = self.options.get("task_id")
        task_id = self.batch.new_id(draft.ordering_key) if chosen_id is None else arguments.name("task_id", chosen_id)
        task = msgspec.structs.replace(draft, id=task_id, input_json=raw)
        return Submission(task) if self.plain else _reserved(task, self.options, self.now)


def build(type: str, input: Any, options: SubmitOptions, now: datetime, size_limit: int) -> Submission:  # noqa: A002
    """The submission of one task with its own options."""
    return Form.read(options, now).fill(type, input, size_limit)


def check_batch(submissions: Sequence[Submission]) -> None:
    """Refuse a batch that is too large to be written at once."""
    if (size := sum(submission.size for submission in submissions)) > BATCH_SIZE_LIMIT:
        msg = (
            f"the inputs of this batch of {len(submissions)} tasks have {size} bytes of JSON together; one batch takes up to "
            f"{BATCH_SIZE_LIMIT}. Submit it in several calls, or keep the inputs elsewhere and submit references."
        )
        raise InvalidInput(msg)


def _rest(options: SubmitOptions) -> dict[str, Any]:
    """The options that most submits do not use, checked only when they are there."""
    given: dict[str, Any] = {}
    for name, check in _CHECKS.items():
        value = options.get(name)
        if value is not None:
            given[name] = check(name, value)
    if (retries := options.get("max_retries")) is not None:
        if "max_attempts" in given:
            both = _listed([("max_attempts", given["max_attempts"]), ("max_retries", retries)])
            msg = f"Give only one of {both}: max_retries=n means max_attempts=n+1."
            raise InvalidInput(msg)
        given["max_attempts"] = arguments.count("max_retries", retries, COUNT_LIMIT - 1) + 1
    return given


def _reserved(task: Task, options: SubmitOptions, now: datetime) -> Submission:
    key, slot = options.get("idempotency_key"), options.get("slot")
    chosen_id = options.get("task_id") is not None
    if key is None and slot is None:
        return Submission(_remembered(task, times.after(now, DEFAULT_KEEP, "idempotency_ttl")), None, chosen_id)
    if key is not None and slot is not None:
        msg = f"Give idempotency_key={key!r} or slot={slot!r}, not both: each decides alone whether the task is new."
        raise InvalidInput(msg)
    if slot is not None:
        kind, scope, key = Kind.Slot, "slot", _slot(slot)
    else:
        assert key is not None
        kind, scope = idempotency.scope_of(_scope(options), task.type)
        key = arguments.text("idempotency_key", key)
    keep = _keep(options)
    start = max(now, task.available_at) if kind is Kind.Slot else now
    expires_at = None if keep is None else times.after(start, keep, "idempotency_ttl")
    key_hash = idempotency.hash_key(scope, key)
    if not chosen_id and task.ordering_key is None:
        # So a key and its task are kept together, and inserted in one step, on any number of shards.
        task_id = ids.belonging_to(task.id, idempotency.identity(kind, scope, key_hash))
        task = msgspec.structs.replace(task, id=task_id)
    reservation = Reservation(
        kind=kind,
        scope=scope,
        key=key,
        key_hash=key_hash,
        task_id=task.id,
        task_type=task.type,
        created_at=now,
        expires_at=expires_at,
        input_hash=None if kind is Kind.Slot else payload.input_hash(task.input_json),
    )
    task = _remembered(task, expires_at or times.FOREVER, key if kind is not Kind.Slot else None)
    return Submission(task, reservation, chosen_id)


def _remembered(task: Task, until: datetime, key: str | None = None) -> Task:
    return msgspec.structs.replace(task, remember_until=until, idempotency_key=key)


def _scope(options: SubmitOptions) -> str:
    return arguments.text("idempotency_scope", options.get("idempotency_scope", idempotency.TASK_TYPE))


def _keep(options: SubmitOptions) -> timedelta | None:
    """How long the key's record lives; None is for ever."""
    if "idempotency_ttl" in options and "idempotency_ttl_days" in options:
        given = f"idempotency_ttl={options['idempotency_ttl']!r} or idempotency_ttl_days={options['idempotency_ttl_days']!r}"
        msg = f"Give {given}, not both."
        raise InvalidInput(msg)
    if "idempotency_ttl" in options:
        ttl = options["idempotency_ttl"]
        return None if ttl is None else times.seconds(ttl, "idempotency_ttl")
    if "idempotency_ttl_days" in options:
        days = options["idempotency_ttl_days"]
        return None if days is None else times.seconds(days, "idempotency_ttl_days", times.DAY)
    return DEFAULT_KEEP


def _available_at(options: SubmitOptions, now: datetime) -> datetime:
    given = [(name, value) for name in DUE if (value := options.get(name)) is not None]
    if not given:
        return now
    if len(given) > 1:
        msg = f"Give only one of {_listed(given)}: each says when the task is due."
        raise InvalidInput(msg)
    name, value = given[0]
    if name == "delay":
        return times.after(now, times.seconds(value, "delay"), "delay")  # type: ignore[arg-type]
    return _moment(name, value)


def _expires_at(options: SubmitOptions, now: datetime) -> datetime | None:
    given = [(name, value) for name in DEADLINE if (value := options.get(name)) is not None]
    if not given:
        return None
    if len(given) > 1:
        msg = f"Give only one of {_listed(given)}: each sets the deadline."
        raise InvalidInput(msg)
    name, value = given[0]
    if name == "expires_at":
        return _moment(name, value)
    return times.after(now, times.seconds(value, name), name)  # type: ignore[arg-type]


def _listed(given: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given)


def _moment(field: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        msg = f"{field} must be a datetime, not {value!r}."
        raise InvalidInput(msg)
    try:
        return times.utc(value)
    except OverflowError:
        msg = f"{field}={value!r} is outside the years that UTC can express."
        raise InvalidInput(msg) from None


def _slot(value: object) -> str:
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], str | date):
        msg = f"slot must be a pair of a name and a date, like ('summary#user-42', date(2026, 1, 28)), not {value!r}."
        raise InvalidInput(msg)
    what, day = value
    if isinstance(day, datetime):
        day = times.to_text(_moment("slot", day))
    if isinstance(day, str) and "#" in arguments.text("slot", day):
        msg = f"slot={value!r}: the second part must not contain '#', which separates it from the first."
        raise InvalidInput(msg)
    return arguments.text("slot", idempotency.slot_key((arguments.text("slot", what), day)))


def _count(field: str, value: object) -> int:
    return arguments.count(field, value, COUNT_LIMIT)


def _priority(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > PRIORITY_LIMIT:
        msg = f"{field}={value!r} must be a whole number between {-PRIORITY_LIMIT} and {PRIORITY_LIMIT}; higher runs first."
        raise InvalidInput(msg)
    return value


def _tags(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        msg = f"{field} must be a list of strings, not {value!r}."
        raise InvalidInput(msg)
    if len(value) > TAGS_LIMIT:
        msg = f"{field} holds {len(value)} tags; at most {TAGS_LIMIT} are allowed."
        raise InvalidInput(msg)
    return tuple(dict.fromkeys(arguments.name(field, tag) for tag in value))


def timeout_seconds(field: str, value: Any) -> float:
    """How long an attempt may take, of the word for it."""
    duration = times.seconds(value, field).total_seconds()
    if not duration:
        msg = f"{field}={arguments.shown(value)} would end every attempt before it began. Give more than zero seconds."
        raise InvalidInput(msg)
    return duration


def _policy(field: str, value: object) -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        msg = f"{field} must be a RetryPolicy, not {value!r}."
        raise InvalidInput(msg)
    return within_bounds(field, value)


def _headers(field: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        msg = f"{field} must map strings to strings, not {value!r}."
        raise InvalidInput(msg)
    headers = {arguments.words(field, name): arguments.words(field, text) for name, text in value.items()}
    size = sum(len(part.encode()) for pair in headers.items() for part in pair)
    if size > HEADERS_LIMIT:
        msg = f"{field} hold {size} bytes ({', '.join(headers)[:80]}); at most {HEADERS_LIMIT} are allowed. Put data into the input."
        raise InvalidInput(msg)
    return headers


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "priority": _priority,
    "ordering_key": arguments.text,
    "tags": _tags,
    "max_attempts": _count,
    "retry": _policy,
    "timeout": timeout_seconds,
    "max_reschedules": _count,
    "headers": _headers,
}
