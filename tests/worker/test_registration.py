"""What is wrong with a handler is said when it is registered, and the message shows how to write it."""

import abc
import functools
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tenure import BaseJobHandler, InvalidHandler, InvalidInput, RetryPolicy, Tenure, TenureError, Worker
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.worker.handlers import make_handler

if TYPE_CHECKING:
    from decimal import Decimal


@pytest.fixture
def worker():
    return Worker(Queue(MemoryStore()))


def nothing(): ...
def three(input, context, more): ...
def only_keywords(*, input): ...
def needs_a_keyword(input, *, key): ...
def any_number(*arguments): ...
async def async_nothing(): ...
def generates(input):
    yield input


async def generates_async(input):
    yield input


class WithoutHandle(BaseJobHandler): ...


class HandlesNothing(BaseJobHandler):
    def handle(self): ...


class NoHandler: ...


SHOWS_THE_RIGHT_ONE = "async def handler(input: MyInput, context: Context)"


@pytest.mark.parametrize(
    "handler",
    [
        nothing,
        async_nothing,
        three,
        only_keywords,
        needs_a_keyword,
        any_number,
        generates,
        generates_async,
        max,
        "not a function",
        None,
        5,
    ],
)
def test_a_function_that_cannot_serve_is_refused_with_one_that_can(worker, handler):
    with pytest.raises(InvalidHandler) as refused:
        worker.task("job")(handler)
    assert SHOWS_THE_RIGHT_ONE in str(refused.value)
    assert "'job'" in str(refused.value)
    assert worker.types == ()


@pytest.mark.parametrize("handler", [WithoutHandle, NoHandler, dict])
def test_a_class_that_cannot_serve_is_refused(worker, handler):
    with pytest.raises(InvalidHandler, match=r"handle\(self, payload\)"):
        worker.register(handler, "job")


def test_a_class_whose_method_takes_no_payload_is_refused(worker):
    with pytest.raises(InvalidHandler, match="HandlesNothing"):
        worker.register(HandlesNothing, "job")


class NeedsArguments(BaseJobHandler):
    def __init__(self, mailer): ...
    def handle(self, payload): ...


class Abstract(BaseJobHandler, abc.ABC):
    def handle(self, payload): ...
    @abc.abstractmethod
    def send(self): ...


class NoClassMethod(BaseJobHandler):
    def payload_model(self):
        return dict

    def handle(self, payload): ...


class RaisingModel(BaseJobHandler):
    @classmethod
    def payload_model(cls):
        raise ValueError("no model today")

    def handle(self, payload): ...


class Yields(BaseJobHandler):
    def handle(self, payload):
        yield payload


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (NeedsArguments, "each attempt makes one as NeedsArguments(), and missing a required argument: 'mailer'"),
        (Abstract, "it is abstract. Define send."),
        (NoClassMethod, "NoClassMethod.payload_model() raised TypeError"),
        (RaisingModel, "RaisingModel.payload_model() raised ValueError: no model today. Make it a classmethod"),
        (Yields, "is a generator, which would never be run"),
    ],
)
def test_a_class_that_no_attempt_could_use_is_refused_now(worker, handler, words):
    with pytest.raises(InvalidHandler) as refused:
        worker.register(handler, "job")
    assert words in str(refused.value)


class WithDefaults(BaseJobHandler):
    def __init__(self, retries=3): ...
    def handle(self, payload): ...


class Untold(BaseJobHandler):
    __signature__ = "nothing that Python could read"

    def handle(self, payload): ...


@pytest.mark.parametrize("handler", [WithDefaults, Untold])
def test_a_class_that_can_be_made_without_arguments_serves(worker, handler):
    worker.register(handler)
    assert worker.types == (handler.__name__,)


def test_without_parentheses_the_name_of_the_function_is_the_type(worker):
    @worker.task
    async def greet(input): ...

    @worker.task
    class Remind(BaseJobHandler):
        job_type = "remind"

        def handle(self, payload): ...

    assert inspect.iscoroutinefunction(greet)
    assert Remind.job_type == "remind"
    assert worker.types == ("greet", "remind")


def test_a_worker_takes_handlers_that_were_made_before_and_tasks_of_an_application():
    app = Tenure("memory://")

    @app.task
    def from_app(input): ...

    made = make_handler("made", with_input)
    worker = Worker(Queue(MemoryStore()), handlers=[from_app, made])
    assert worker._handlers == {"from_app": from_app.handler, "made": made}
    with pytest.raises(InvalidHandler, match="'made' already has a handler"):
        worker.add(made)


@pytest.mark.parametrize("handlers", [[lambda _: None], [BaseJobHandler], ["greet"]])
def test_what_is_no_handler_is_refused_by_a_worker(handlers):
    with pytest.raises(InvalidHandler, match=r"is no handler that was made before.*worker\.register"):
        Worker(Queue(MemoryStore()), handlers=handlers)


def test_a_timeout_may_be_a_timedelta(worker):
    worker.task("job", timeout=timedelta(minutes=1))(with_input)
    assert worker._handlers["job"].timeout == 60.0


def with_input(input): ...
def with_context(input, context): ...
def with_optional_context(input, context=None): ...
def with_own_default(input, retries=3): ...
def with_odd_names(payload, ctx): ...
def with_positional_only(input, /): ...
def with_more_defaults(input, context, verbose=False): ...


class Callable:
    def __call__(self, input): ...


class AsyncCallable:
    async def __call__(self, input, context): ...


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


@pytest.mark.parametrize(
    ("handler", "takes_context", "executor"),
    [
        (with_input, False, "thread"),
        (with_context, True, "thread"),
        (with_optional_context, True, "thread"),
        (with_own_default, False, "thread"),
        (with_odd_names, True, "thread"),
        (with_positional_only, False, "thread"),
        (with_more_defaults, True, "thread"),
        (Callable(), False, "thread"),
        (AsyncCallable(), True, "async"),
        (functools.partial(with_odd_names, ctx=1), False, "thread"),
        (decorated(with_context), True, "thread"),
    ],
)
def test_the_forms_a_handler_may_have(worker, handler, takes_context, executor):
    worker.register(handler, "job")
    registered = worker._handlers["job"]
    assert (registered.takes_context, registered.executor) == (takes_context, executor)


def hidden_type(input: "Decimal"): ...
def unknown_type(input: "Nowhere"): ...  # noqa: F821 - that is the point
def unknown_part(input: "inspect.Nowhere"): ...
def broken_text(input: "list["): ...  # noqa: F722 - that is the point
def uncheckable(input: inspect.Parameter): ...


@pytest.mark.parametrize("handler", [hidden_type, unknown_type, unknown_part, broken_text, uncheckable])
def test_an_annotation_that_cannot_be_checked_is_refused_now_and_not_when_a_task_arrives(worker, handler):
    with pytest.raises(InvalidHandler, match=r"'job'.*annotate"):
        worker.register(handler, "job")


class TextAnnotated:
    def __call__(self, input: "int"): ...


@pytest.mark.parametrize("handler", [TextAnnotated(), functools.partial(TextAnnotated.__call__, None)])
def test_annotations_that_are_texts_are_understood_in_callable_objects_too(worker, handler):
    worker.register(handler, "job")
    assert worker._handlers["job"].adapter.validate_json("5") == 5


def test_each_type_has_one_handler(worker):
    worker.register(with_input, "job")
    with pytest.raises(InvalidHandler, match="'job' already has a handler"):
        worker.register(with_context, "job")


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_type_needs_a_name(worker, name):
    with pytest.raises(InvalidHandler):
        worker.task(name)(with_input)


def test_a_handler_without_a_name_needs_a_type(worker):
    with pytest.raises(InvalidHandler, match="has no name"):
        worker.register(functools.partial(with_odd_names, ctx=1))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": timedelta(seconds=-1)}, "'job' has timeout=datetime"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"timeout": True}, "timeout=True"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"executor": "gpu"}, "'gpu' is no executor"),
        ({"executor": "async"}, "a plain function runs on a thread"),
        ({"retry": 5}, "retry"),
        ({"retry": RetryPolicy(max_attempts=2**63)}, f"'job' has a retry policy: max_attempts={2**63}"),
    ],
)
def test_settings_of_a_handler_are_checked(worker, settings, words):
    with pytest.raises(TenureError, match=words):
        worker.task("job", **settings)(with_input)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"concurrency": 0}, "concurrency=0"),
        ({"concurrency": 1.5}, "concurrency=1.5"),
        ({"concurrency": True}, "concurrency=True"),
        ({"lease": 0}, "lease=0"),
        ({"lease": -1}, "lease=-1"),
        ({"lease": "long"}, "lease"),
        ({"poll": 0}, "poll=0"),
        ({"grace": -1}, "grace=-1"),
        ({"cancel_grace": "x"}, "cancel_grace"),
        ({"sweep_interval": 0}, "sweep_interval=0"),
        ({"queues": ()}, "queues="),
        ({"queues": ("a", "")}, "queues="),
        ({"queues": (5,)}, "queues="),
        ({"worker_id": ""}, "worker_id"),
        ({"retry": "often"}, "retry"),
        ({"retry": RetryPolicy(max_attempts=2**63)}, f"retry: max_attempts={2**63} is more than any task needs"),
        ({"retention": {"pending": None}}, "pending"),
        ({"retention": {"finished": None}}, "finished"),
        ({"retention": {"completed": -1}}, "completed"),
    ],
)
def test_settings_of_a_worker_are_refused_by_name(settings, words):
    with pytest.raises(InvalidInput, match=words):
        Worker(Queue(MemoryStore()), **settings)


def test_one_queue_may_be_given_as_a_word():
    assert Worker(Queue(MemoryStore()), queues="mail").queues == ("mail",)
