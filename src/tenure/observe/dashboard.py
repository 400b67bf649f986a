"""The dashboard for Grafana that is part of the package; `python -m tenure.observe.dashboard` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("tenure.dashboard.json")
WIDTH, HEIGHT = 12, 8
SOURCE = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """One graph: its lines as (expression, legend)."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    says: str = ""


def _rate(metric: str, by: str = "task_type") -> str:
    return f"sum by ({by}) (rate(tenure_{metric}[$__rate_interval]))"


def _quantiles(metric: str, by: str) -> tuple[tuple[str, str], ...]:
    buckets = f"sum by (le, {by}) (rate(tenure_{metric}_bucket[$__rate_interval]))"
    return tuple((f"histogram_quantile({part}, {buckets})", f"p{part * 100:g} {{{{{by}}}}}") for part in (0.5, 0.99))


PANELS = (
    Panel("Tasks by status", "short", (('max by (queue, status) (tenure_queue_depth{status=~"pending|running|failed"})', "{{queue}} {{status}}"),)),
    Panel("Oldest", "s", (("max(tenure_oldest_pending_seconds)", "due for"), ("max(tenure_running_age_seconds)", "running for")), "How long the longest waiting task has been due, and the age of the longest attempt."),
    Panel("Submitted", "ops", ((_rate("tasks_submitted_total"), "{{task_type}}"),), "As far as producers are scraped."),
    Panel("Completed", "ops", ((_rate("tasks_completed_total"), "{{task_type}}"),)),
    Panel("Failed attempts by reason", "ops", ((_rate("tasks_failed_total", "task_type, reason"), "{{task_type}} {{reason}}"),)),
    Panel("Retried, dead, expired, cancelled", "ops", tuple((_rate(f"tasks_{kind}_total", "queue"), f"{kind} {{{{queue}}}}") for kind in ("retried", "dead", "expired", "cancelled"))),
    Panel("Wait from due to claimed", "s", _quantiles("task_wait_seconds", "queue")),
    Panel("Run time of handlers", "s", _quantiles("task_duration_seconds", "task_type")),
    Panel("Share that fails", "percentunit", (("sum(rate(tenure_tasks_dead_total[$__rate_interval])) / (sum(rate(tenure_tasks_dead_total[$__rate_interval])) + sum(rate(tenure_tasks_completed_total[$__rate_interval])))", "dead"),)),
    Panel("About to expire, and without a worker", "short", (("max by (task_type) (tenure_tasks_near_expiration)", "expires soon: {{task_type}}"), ("max by (task_type, queue) (tenure_tasks_unhandled)", "nobody takes: {{task_type}} in {{queue}}"))),
    Panel("Time to live at the submit", "s", _quantiles("task_ttl_seconds", "task_type")),
    Panel("Leases", "ops", ((_rate("leases_lapsed_total", "queue"), "lapsed {{queue}}"), (_rate("leases_lost_total", "queue"), "lost {{queue}}"), (_rate("tasks_settled_late_total", "queue"), "settled late {{queue}}"))),
    Panel("Calls of the store", "ops", ((_rate("store_requests_total", "operation, outcome"), "{{operation}} {{outcome}}"),)),
    Panel("Time of the calls of the store", "s", _quantiles("store_request_seconds", "operation")),
    Panel("Workers, pauses, damaged records", "short", (("max(tenure_workers)", "workers"), ("max(tenure_queues_paused)", "paused queues"), ("max(tenure_records_damaged)", "damaged records"))),
    Panel("Rescheduled, released, requeued", "ops", tuple((_rate(f"tasks_{kind}_total", "queue"), f"{kind} {{{{queue}}}}") for kind in ("rescheduled", "released", "requeued"))),
)  # fmt: skip


def dashboard(prefix: str = "tenure") -> dict[str, Any]:
    """As Grafana imports it, for metrics with this prefix."""
    return {
        "title": prefix.capitalize(),
        "uid": prefix,
        "tags": ["tenure"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": [_panel(number, panel, prefix) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel, prefix: str) -> dict[str, Any]:
    row, column = divmod(number, 2)
    return {
        "id": number + 1,
        "title": panel.title,
        "description": panel.says,
        "type": "timeseries",
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expression.replace("tenure_", f"{prefix}_"),
                "legendFormat": legend,
            }
            for index, (expression, legend) in enumerate(panel.lines)
        ],
    }


def text(prefix: str = "tenure") -> str:
    """The file."""
    return json.dumps(dashboard(prefix), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
