"""The page `docs/cli.md`, written from the commands themselves: `python -m tenure.cli.reference > docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from tenure.cli.command import COMMON
from tenure.cli.program import GROUPS, app

HEAD = """\
# The command line

This page is written from the commands themselves by `python -m tenure.cli.reference`, and a test
keeps it up to date.

## Where the queue is

The address of the store is the one of `--url`, else of `$TENURE_URL`, else of a settings file,
else `sqlite:///tenure.db`. The settings file is `tenure.toml`, or the table `[tool.tenure]` of
`pyproject.toml`, in this folder or the nearest one above it:

```toml
url = "sqlite:///jobs.db"        # a relative file is meant from the folder of this file
app = "myapp:app"                # what `tenure worker` runs
queues = ["default", "mail"]
concurrency = 50
processes = 2
lease = "30s"
grace = "30s"
metrics_port = 9000              # or "127.0.0.1:9000"
log_format = "json"              # or "text"
log_level = "info"
trace = true                     # OpenTelemetry
sentry = true                    # reports to $SENTRY_DSN

[profiles.staging]               # tenure --profile staging …, or $TENURE_PROFILE
url = "sqlite:////srv/staging/jobs.db"
```

`tenure config show` says where each value came from.

## Words that every command understands

`--url`, `--profile`, `--json` and `--verbose` stand before or after the name of the command.
At a terminal there are colours and tables; in a pipe the same as plain text. `NO_COLOR` is heeded.
Durations are written `30s`, `5m`, `1h30m`, `7d`, `2w`, `250ms`, or as plain seconds; points in time
in ISO 8601, in UTC unless they say otherwise.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | refused, or not found; part of a bulk command was refused; `doctor` found a problem |
| 2 | wrong usage: words, values or settings that do not fit |
| 3 | the store cannot be reached or used |
| 130 | ended by Ctrl-C |

An error is a line or two on the error stream, with what to do. With `--verbose` its traceback stands
before it; with `--json` it is `{"error": {"kind", "message", "exit_code"}}`.

## JSON

With `--json` the answer is JSON on the standard output, one object per line. Fields may be added in
later versions; those that are there stay. Times are ISO 8601 in UTC. A *task* is the whole record:
`id`, `task_type`, `queue`, `status`, `input`, `output`, `attempts`, `created_at`, `available_at`,
`expires_at`, `last_error`, `history` and the others, each always present. An *event* has `task_id`,
`task_type`, `queue`, `number`, `status`, `at`, `what`, `attempt`, `fence`, `worker` and `why`.
"""

CHANGED = '`{"id", "action", "done", "status", "error"}` for each task; with `--dry-run` `{"id", "action", "dry_run"}`'
LISTED = 'a task per line; if there are more, a last line `{"cursor"}`'
MOVED = "`{tasks, updated, there, stones, reservations, running, damaged, conflicts, complete}`"

JSON = {
    "submit": 'the task (`created` is false for a repeat); with `--wait` then `{"id", "result"}`; with `--many` `{"lines", "created", "existing", "refused": [{"line", "error"}]}`',
    "status": "the task, with `why`; with `--watch` once per change",
    "history": "an event per line",
    "list": LISTED,
    "cancel": CHANGED,
    "retry": CHANGED,
    "archive": CHANGED,
    "expire": CHANGED,
    "dlq list": LISTED,
    "dlq show": "the task, with `why`",
    "dlq requeue": CHANGED,
    "dlq purge": CHANGED,
    "worker": 'the log, a line each: `{"at", "level", "logger", "message"}` and more; at the end `{"worker", "ended"}`',
    "tail": "an event per line",
    "stats": "`{now, counts, queues, types, per_second, oldest_pending_seconds, oldest_running_seconds, workers, paused, unhandled_types, damaged}`",
    "top": "as `stats`, once per look",
    "workers": "`{id, host, pid, queues, types, concurrency, running, started_at, seen_at, alive, tasks}` per worker",
    "pause": "`{queue, paused, reason, until}`",
    "resume": "`{queue, paused, was_paused}`",
    "doctor": "`{name, level, text, fix}` per finding; `level` is `ok`, `warning` or `problem`",
    "export": MOVED,
    "import": MOVED,
    "copy": MOVED,
    "migrate": "`{before, now, newest}`",
    "sql": "`{version, sql}` per migration",
    "table": "`{form, template}`, or `{table, ready}` with `--create`",
    "bench": "`{submit_one_by_one, submit_concurrently, submit_in_bulk, drain}` in tasks per second, `{latency_median, latency_slowest}` in milliseconds",
    "demo": "`{types, total, checks: [{holds, text}], adds_up}`",
    "completions": "`{shell, script}`",
    "config show": "`{name: {value, source}}`",
}
"""What `--json` prints, for each command."""


def page() -> str:
    """The whole page."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    parts = [HEAD]
    for panel, modules in GROUPS.items():
        parts.append(f"## {panel}\n")
        for module in modules:
            for entry in module.app.registered_commands:
                name = entry.name or entry.callback.__name__
                parts.append(_command(name, commands[name]))
            for group in module.app.registered_groups:
                for name, command in commands[group.name].commands.items():
                    parts.append(_command(f"{group.name} {name}", command))
    return "\n".join(parts)


def _command(name: str, command: Any) -> str:
    parameters = [parameter for parameter in command.params if parameter.name not in (*COMMON, "help")]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    usage = " ".join(["tenure", name, *(argument.metavar or argument.name.upper() for argument in arguments)])
    lines = [
        f"### `tenure {name}`",
        "",
        *_paragraphs(command.help),
        f"    {usage}{' [OPTIONS]' if options else ''}",
        "",
    ]
    rows = list(_rows(arguments, options))
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    lines += [f"`--json`: {JSON[name]}.", ""]
    return "\n".join(lines)


def _paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in (text or "").strip().split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""


def _rows(arguments: list[Any], options: list[Any]) -> Iterator[str]:
    for argument in arguments:
        yield f"| `{argument.metavar or argument.name.upper()}` | {argument.help or ''} |"
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        default = _default(option)
        yield f"| {names}{_value(option)} | {_escaped(option.help or '')}{f' Default: {default}.' if default else ''} |"


def _value(option: Any) -> str:
    if option.is_flag:
        return ""
    number = option.type_descriptor.annotation is int
    return f" `{option.metavar or ('NUMBER' if number else 'TEXT')}`"


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag or option.default in (None, "", ()) or option.show_default is False:
        return ""
    return str(option.default)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
