"""Logs, metrics, traces and error reports: subscribers of one stream of events, each optional."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.observe.events import Subscriber, TaskEvent
    from tenure.observe.health import Health
    from tenure.observe.logging import JsonHandler, JsonLines, Logging
    from tenure.observe.prometheus import Prometheus
    from tenure.observe.sentry import Sentry
    from tenure.observe.tracing import Tracing

__all__ = [
    "Health",
    "JsonHandler",
    "JsonLines",
    "Logging",
    "Prometheus",
    "Sentry",
    "Subscriber",
    "TaskEvent",
    "Tracing",
]

_HOMES = {
    "events": ("Subscriber", "TaskEvent"),
    "health": ("Health",),
    "logging": ("JsonHandler", "JsonLines", "Logging"),
    "prometheus": ("Prometheus",),
    "sentry": ("Sentry",),
    "tracing": ("Tracing",),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: each needs a package of its own, which may not be there."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
