"""The names that users and their tests rely on."""

import inspect
import subprocess
import sys

import pytest

import tenure
import tenure.sync
from tenure import BaseJobHandler, Context, Queue, RescheduleError, RetryPolicy, Task, TaskFunction, Tenure, Worker

NAMES = """
    BaseJobHandler CancelResult CannotArchive CannotCancel CannotExpire CannotPurge CannotRetry ConcurrentChange Context
    DamagedRecord Event IdempotencyConflict InvalidHandler InvalidInput InvalidURL LeaseLost MissingExtra Page
    PermanentError Progress Queue QueueStats RescheduleError ResultTimeout RetryPolicy StoreClosed StoreError StoreFull
    StoreTooNew StoreUnavailable StoreUnusable SubmitOptions Task TaskFunction TaskNotFound TaskStatus TaskUnsuccessful Tenure
    TenureError TransitionRefused Unrecoverable Worker WorkerInfo connect
"""


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_these_are_the_public_names():
    assert tenure.__all__ == NAMES.split()
    assert all(hasattr(tenure, name) for name in tenure.__all__)


def test_there_is_a_version():
    assert [part.isdigit() for part in tenure.__version__.split(".")] == [True, True, True]


QUEUE = {
    "submit": ["type", "input", "options"],
    "enqueue": ["type", "input", "options"],
    "submit_many": ["tasks", "options"],
    "get": ["task_id"],
    "list": ["status", "type", "queue", "tag", "older_than", "error_contains", "limit", "cursor"],
    "history": ["task_id"],
    "explain": ["task_id"],
    "now": [],
    "cancel": ["task_id", "reason", "by"],
    "cancel_many": ["ids", "reason", "by"],
    "cancel_by_type": ["type", "reason", "by"],
    "retry": ["task_id", "keep_attempts", "by"],
    "replay": ["task_id", "keep_attempts", "by"],
    "requeue": ["task_id", "keep_attempts", "by"],
    "mark_expired": ["task_id"],
    "archive": ["task_id"],
    "purge": ["task_id", "only"],
    "result": ["task_id", "timeout"],
    "counts": ["queue"],
    "stats": [],
    "throughput": ["window"],
    "pause": ["queue", "reason", "by", "resume_after"],
    "resume": ["queue"],
    "paused": [],
    "workers": ["gone"],
    "close": [],
}


@pytest.mark.parametrize("name", QUEUE)
def test_the_calls_of_a_queue(name):
    method = getattr(Queue, name)
    assert inspect.iscoroutinefunction(method)
    assert [each for each in parameters(method) if each in QUEUE[name]] == QUEUE[name]


@pytest.mark.parametrize("name", QUEUE)
def test_the_blocking_queue_has_the_same_calls(name):
    method = getattr(tenure.sync.Queue, name)
    assert not inspect.iscoroutinefunction(method)
    if name != "close":
        assert method.__doc__ == getattr(Queue, name).__doc__


def test_the_options_of_a_submit():
    assert set(tenure.SubmitOptions.__annotations__) == {
        *("queue", "priority", "ordering_key", "tags", "headers"),
        *("schedule_at", "run_at", "scheduled_for", "delay"),
        *("expires_at", "ttl", "ttl_seconds"),
        *("task_id", "idempotency_key", "idempotency_scope", "idempotency_ttl", "idempotency_ttl_days", "slot"),
        *("max_attempts", "max_retries", "retry", "timeout", "max_reschedules"),
    }


def test_the_parameters_of_connect():
    assert parameters(tenure.connect) == ["url", "clock"]
    assert parameters(tenure.sync.connect) == ["url", "clock"]


def test_the_parameters_of_a_worker():
    signature = inspect.signature(Worker)
    assert list(signature.parameters)[:6] == ["queue", "queues", "concurrency", "lease", "retry", "worker_id"]
    assert {"poll", "grace", "cancel_grace", "sweep_interval", "retention"} <= set(signature.parameters)
    assert all(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY
        for name, parameter in signature.parameters.items()
        if name != "queue"
    )
    assert signature.parameters["queues"].default == ("default",)
    assert signature.parameters["lease"].default == 30.0
    assert signature.parameters["retry"].default == RetryPolicy()
    assert signature.parameters["worker_id"].default is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("task", ["type", "timeout", "retry", "executor"]),
        ("register", ["handler", "type", "settings"]),
        ("run", ["until_idle", "max_tasks"]),
        ("stop", ["now"]),
        ("middleware", ["layer"]),
        ("on_startup", ["hook"]),
        ("on_shutdown", ["hook"]),
        ("on_success", ["hook"]),
        ("on_error", ["hook"]),
    ],
)
def test_the_methods_of_a_worker(name, expected):
    assert parameters(getattr(Worker, name)) == expected


def test_what_a_handler_sees():
    context = Context(Task("t1", "greet", *[None] * 3), queue=None)  # type: ignore[arg-type]
    for name in ("task", "queue", "attempt", "fence", "cancel_requested", "logger"):
        assert hasattr(context, name)
    assert parameters(Context.extend_lease) == ["seconds"]
    assert parameters(Context.progress) == ["current", "total", "message"]


def test_a_handler_class():
    assert parameters(BaseJobHandler.handle) == ["payload"]
    assert parameters(BaseJobHandler.payload_model) == []


def test_an_application():
    assert parameters(Tenure) == ["url", "worker_settings"]
    assert callable(Tenure.task)
    assert parameters(TaskFunction.submit) == ["input", "connection", "options"]
    assert parameters(TaskFunction.submit_many) == ["inputs", "connection", "options"]


def test_what_a_handler_raises():
    assert parameters(RescheduleError) == ["delay_seconds", "extend_expiration_seconds"]
    assert tenure.Unrecoverable is tenure.PermanentError


def test_a_retry_policy():
    assert parameters(RetryPolicy) == ["base", "max_delay", "multiplier", "jitter", "max_attempts"]


@pytest.mark.parametrize("name", [name for name in NAMES.split() if isinstance(getattr(tenure, name), type)])
def test_every_public_thing_says_what_it_is(name):
    assert inspect.getdoc(getattr(tenure, name))


def test_importing_tenure_imports_no_more_than_it_needs():
    heavy = {"typer", "rich", "click", "hypothesis", "pytest", "tenure.stores.sqlite", "tenure.cli"}
    code = f"import sys, tenure; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == []
