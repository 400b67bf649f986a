"""Scopes of Sentry for attempts: each has its own as soon as it tells Sentry something, and most never do.

A fork of a scope for every attempt would cost more than everything else that is observed.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from sentry_sdk.scope import Scope

from tenure.observe.events import Execution

WRITES = ("set_", "add_", "remove_", "clear", "update_")

_attempt: ContextVar[tuple[Scope, Execution]] = ContextVar("tenure_sentry_attempt")


class Untouched(Scope):
    """The scope of all attempts of a type that have told nothing. Whoever writes to it gets one of its own first."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(own_scope(), name, value)

    def __copy__(self) -> Scope:
        scope = _outer().fork()
        _name(scope)
        return scope


def enter(outer: Scope, shared: Untouched, context: Execution) -> None:
    """From here on, in this context, Sentry is told about this attempt."""
    _attempt.set((outer, context))
    Scope.set_isolation_scope(shared)


def shared_scope(outer: Scope, type_: str) -> Untouched:
    """The scope of the attempts of a type that tell nothing."""
    scope = outer.fork()
    scope.clear_breadcrumbs()
    scope.set_transaction_name(type_, source="task")
    shared: Untouched = _as(Untouched, scope)
    return shared


def own_scope() -> Scope:
    """A scope for this attempt alone, which begins as the one around the worker is now."""
    scope = _outer().fork()
    scope.clear_breadcrumbs()
    _name(scope)
    Scope.set_isolation_scope(scope)
    _, context = _attempt.get()
    if context.kept is not None:
        context.kept["sentry"] = scope
    return scope


def _outer() -> Scope:
    return _attempt.get()[0]


def _name(scope: Scope) -> None:
    scope.set_transaction_name(_attempt.get()[1].task.type, source="task")


def _as(kind: type[Scope], scope: Scope) -> Any:
    object.__setattr__(scope, "__class__", kind)
    return scope


def _forking(name: str) -> Any:
    def write(self: Untouched, *arguments: Any, **keywords: Any) -> Any:  # noqa: ARG001 - it stays as it is
        return getattr(own_scope(), name)(*arguments, **keywords)

    return write


for _method in dir(Scope):
    if _method.startswith(WRITES) and not isinstance(vars(Scope).get(_method), classmethod):
        setattr(Untouched, _method, _forking(_method))
