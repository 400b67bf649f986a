"""Sentry: a dead letter is an event, with its task, its input and the attempts before it as breadcrumbs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tenure.errors import MissingExtra
from tenure.observe.beside import Beside
from tenure.observe.events import Failed, Lapsed, Subscriber, TaskEvent, kept
from tenure.observe.redaction import SECRETS, Redaction
from tenure.task import Task

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.scope import Scope, use_isolation_scope
    from sentry_sdk.utils import event_from_exception

    from tenure.observe.scopes import enter, outer_scope
except ModuleNotFoundError:
    raise MissingExtra("Sentry", "sentry") from None

FAILURES = frozenset({Failed, Lapsed})
ROOM = 250
"""How many failures wait for their report. Each holds on to all that its handler had at hand."""
PATIENCE = 5.0
TOLD = ("contexts", "extra", "breadcrumbs", "message", "logentry", "user", "tags", "request")
"""Parts of an event whose words others have chosen."""


class Sentry(Subscriber):
    """Reports dead letters; with `every_failure`, also the attempts that are tried again.

    It uses the client that `sentry_sdk.init` has set up. Everything a handler itself tells Sentry is kept apart
    from what others tell at the same time. `redact` are names of fields whose values are never sent; `send_input=False`
    sends no input at all, and so no variables of frames. Reports are made on a thread of their own; in a burst, those that it
    has no room for are dropped.
    """

    def __init__(
        self, *, redact: Iterable[str] = SECRETS, every_failure: bool = False, send_input: bool = True
    ) -> None:
        # Its lines would be events of their own, about the same failures.
        ignore_logger("tenure.events")
        self._redacted = Redaction(redact)
        self._every_failure = every_failure
        self._send_input = send_input
        self._reports = Beside("reports to Sentry", ROOM)

    def worker_begins(self, queues: Sequence[str], types: Sequence[str]) -> None:  # noqa: ARG002 - whatever it takes
        """From here on, a scope of its own for each attempt that tells something."""
        enter()

    def happened(self, events: Sequence[TaskEvent]) -> None:  # noqa: D102 - as the base says
        if FAILURES.isdisjoint(map(type, events)):
            return
        failures: list[Any] = [event for event in events if type(event) in FAILURES]
        now, context = datetime.now(UTC), copy_context()
        for failed in failures:
            if (failed.dead or self._every_failure) and self._reports.has_room():
                scope = (kept(failed.context, "sentry") or outer_scope()).fork()
                self._reports.put(partial(context.run, self._report, failed, scope, now))

    async def finish(self) -> None:
        """Wait for the reports that are yet to be made."""
        await asyncio.to_thread(self._reports.finish, PATIENCE)

    def _report(self, failed: Failed, scope: Scope, now: datetime) -> None:
        task = failed.task
        event, hint, exception = self._described(failed)
        event["timestamp"] = now
        scope.fingerprint = ["tenure", task.type, exception]
        scope.set_transaction_name(task.type, source="task")
        scope.set_tag("task_type", task.type)
        scope.set_tag("queue", task.queue)
        scope.set_context("task", self._about(task, failed))
        for breadcrumb in _earlier(task):
            scope.add_breadcrumb(breadcrumb)
        scope.add_event_processor(lambda event, _: self._clean(event))
        with use_isolation_scope(scope):
            sentry_sdk.capture_event(event, hint)

    def _described(self, failed: Failed) -> tuple[Any, Any, str]:
        """The event itself: from the exception where there is one, else from what the record says."""
        error = failed.error
        level = "error" if failed.dead else "warning"
        # What failed in a process of its own left its words and traceback only.
        if error is not None and not hasattr(error, "failure"):
            options = sentry_sdk.get_client().options
            event, hint = event_from_exception(
                error, client_options=options, mechanism={"type": "tenure", "handled": False}
            )
            event["level"] = level  # type: ignore[typeddict-item]
            return event, hint, type(error).__qualname__
        name, _, words = (failed.task.last_error or failed.reason).partition(": ")
        exception = name if words else failed.reason
        described: dict[str, Any] = {
            "level": level,
            "exception": {"values": [{"type": exception, "value": words or name}]},
            "extra": {"traceback": failed.task.traceback} if failed.task.traceback else {},
        }
        return described, None, exception

    def _about(self, task: Task, failed: Failed) -> dict[str, Any]:
        last = task.history[-1]
        about = {
            "id": task.id,
            "type": task.type,
            "queue": task.queue,
            "attempt": last.attempt,
            "worker": last.worker,
            "status": task.status.value,
            "reason": failed.reason,
        }
        return {**about, "input": task.input} if self._send_input else about

    def _clean(self, event: Any) -> Any:
        """Secrets may stand in the input, in the words of an exception, and in the variables of its frames."""
        for part in TOLD:
            if part in event:
                event[part] = self._redacted(event[part])
        for exception in event.get("exception", {}).get("values", ()):
            exception["value"] = self._redacted(exception.get("value"))
            for frame in (exception.get("stacktrace") or {}).get("frames", ()):
                # Tenure's own hold the input, and help nobody.
                if not self._send_input or (frame.get("module") or "").startswith("tenure."):
                    frame.pop("vars", None)
                elif "vars" in frame:
                    frame["vars"] = self._redacted(frame["vars"])
        return event


def _earlier(task: Task) -> list[dict[str, Any]]:
    """The life of the task so far: the record has it, whichever processes it went through."""
    return [
        {
            "category": "tenure",
            "type": "default",
            "timestamp": event.at,
            "level": "warning" if event.what in ("failed", "lapsed") else "info",
            "message": f"{event.what}{f': {event.why}' if event.why else ''}",
            "data": {"attempt": event.attempt, "worker": event.worker},
        }
        for event in task.history[:-1]
    ]
