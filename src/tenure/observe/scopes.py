"""Scopes of Sentry for attempts: each has its own as soon as it tells Sentry something, and most never do.

A fork of a scope for every attempt would cost more than everything else that is observed.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from sentry_sdk.scope import Scope

from tenure.observe.events import keep, kept, under_way

WRITES = ("set_", "add_", "remove_", "clear", "update_")

_around: ContextVar[Scope | None] = ContextVar("tenure_sentry_around_the_worker", default=None)


class Untouched(Scope):
    """The scope of all attempts that have told nothing. Whoever writes to it gets one of its own first."""

    __slots__ = ()

    @property
    def _transaction(self) -> str | None:  # type: ignore[override]
        """Where Sentry looks for the name: that of the attempt which asks."""
        execution = under_way.get()
        return None if execution is None else execution.task.type

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(own_scope(), name, value)

    def __copy__(self) -> Scope:
        return _fork()


def enter() -> None:
    """From here on, in this context and those that begin with it, Sentry is told about attempts."""
    _around.set(Scope.get_isolation_scope())
    shared = _fork()
    shared._transaction_info["source"] = "task"  # noqa: SLF001 - as set_transaction_name does; the name is each attempt's
    object.__setattr__(shared, "__class__", Untouched)
    Scope.set_isolation_scope(shared)


def outer_scope() -> Scope:
    """The scope around the worker, also for those whom an attempt has called."""
    return _around.get() or Scope.get_isolation_scope()


def own_scope() -> Scope:
    """A scope for this attempt alone, which begins as the one around the worker is now."""
    execution = under_way.get()
    scope: Scope = kept(execution, "sentry") or _fork()
    Scope.set_isolation_scope(scope)
    if execution is not None:
        keep(execution, "sentry", scope)
    return scope


def _fork() -> Scope:
    scope = outer_scope().fork()
    scope.clear_breadcrumbs()
    if (execution := under_way.get()) is not None:
        scope.set_transaction_name(execution.task.type, source="task")
    return scope


def _forking(name: str) -> Any:
    def write(self: Untouched, *arguments: Any, **keywords: Any) -> Any:  # noqa: ARG001 - it stays as it is
        return getattr(own_scope(), name)(*arguments, **keywords)

    return write


for _method in dir(Scope):
    if _method.startswith(WRITES) and not isinstance(vars(Scope).get(_method), classmethod):
        setattr(Untouched, _method, _forking(_method))
