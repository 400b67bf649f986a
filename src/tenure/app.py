"""One object for an application: where its queue is, and which tasks it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from tenure import payload
from tenure.errors import InvalidHandler, InvalidInput
from tenure.observe.events import Subscriber, check_subscriber
from tenure.queue import Queue, connect
from tenure.retry import RetryPolicy
from tenure.stores import separated
from tenure.submission import SubmitOptions, with_own
from tenure.task import Task
from tenure.worker import Worker
from tenure.worker.handlers import INHERIT, Executor, Handler, make_handler, name_of

Input = TypeVar("Input")
Output = TypeVar("Output")


class TaskFunction(Generic[Input, Output]):
    """A function that was made a task: call it as before, or submit it."""

    def __init__(self, app: Tenure, handler: Handler, options: SubmitOptions) -> None:
        self.app = app
        self.handler = handler
        self.function = handler.function
        self.type = handler.type
        self._options = options
        self.__doc__ = handler.function.__doc__
        self.__name__ = getattr(handler.function, "__name__", handler.type)
        self.__module__ = handler.function.__module__

    def __call__(self, *arguments: Any, **keywords: Any) -> Output:
        """Call the function itself, here and now."""
        result: Output = self.function(*arguments, **keywords)
        return result

    async def submit(self, input: Input, *, connection: Any = None, **options: Unpack[SubmitOptions]) -> Task:  # noqa: A002 - the contract's names
        """Submit a task with this input; an input that the handler would refuse is refused here."""
        queue = await self.app.queue()
        checked = self._checked(input)
        return await queue.submit(self.type, checked, connection=connection, **with_own(self._options, options))

    async def submit_many(
        self, inputs: Iterable[Input], *, connection: Any = None, **options: Unpack[SubmitOptions]
    ) -> list[Task]:
        """Submit a task for each input, in one batch."""
        queue = await self.app.queue()
        tasks = [(self.type, self._checked(each)) for each in inputs]
        return await queue.submit_many(tasks, connection=connection, **with_own(self._options, options))

    def _checked(self, value: Input) -> msgspec.Raw:
        adapter = self.handler.adapter
        if adapter is None:
            return payload.to_json(value)
        try:
            valid = adapter.validate_python(value)
        except Exception as error:
            msg = f"input does not fit {self.type!r}: {payload.said(error)}"
            raise InvalidInput(msg) from error
        return payload.typed_json(valid, adapter)

    def __repr__(self) -> str:
        return f"<task {self.type!r}>"


class MakesTask(Protocol):
    """What `app.task` with options returns: it makes a function or a handler class a task."""

    @overload
    def __call__(self, handler: type[Any], /) -> TaskFunction[Any, Any]: ...
    @overload
    def __call__(self, function: Callable[[Input], Output], /) -> TaskFunction[Input, Output]: ...
    @overload
    def __call__(self, function: Callable[[Input, Any], Output], /) -> TaskFunction[Input, Output]: ...


class Tenure:
    """A queue address and a registry of tasks.

    >>> app = Tenure("memory://")
    >>> @app.task
    ... async def greet(input: dict) -> str:
    ...     return f"hello {input['name']}"
    >>> greet
    <task 'greet'>
    """

    def __init__(self, url: str | Sequence[str] | None = None, **worker_settings: Any) -> None:
        self.url = None if url is None else " ".join(separated(url))
        self.worker_settings = worker_settings
        self.tasks: dict[str, TaskFunction[Any, Any]] = {}
        self._observers: tuple[Subscriber, ...] = ()
        self._queue: Queue | None = None
        self._connecting: asyncio.Future[Queue] | None = None

    @overload
    def task(self, handler: type[Any], /) -> TaskFunction[Any, Any]: ...
    @overload
    def task(self, function: Callable[[Input], Output], /) -> TaskFunction[Input, Output]: ...
    @overload
    def task(self, function: Callable[[Input, Any], Output], /) -> TaskFunction[Input, Output]: ...
    @overload
    def task(
        self,
        type: str | None = None,
        /,
        *,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | None = INHERIT,
        executor: Executor | None = None,
        options: SubmitOptions | None = None,
    ) -> MakesTask: ...
    def task(
        self,
        function: Any = None,
        /,
        *,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | None = INHERIT,
        executor: Executor | None = None,
        options: SubmitOptions | None = None,
    ) -> Any:
        """Make a function a task: `@app.task`, or `@app.task("its_type", timeout=30)`.

        `options` are submitted with every task of this type unless the producer says otherwise.
        """

        def make(target: Any, name: str | None = None) -> TaskFunction[Any, Any]:
            type_ = name or name_of(target)
            if type_ in self.tasks:
                msg = f"The type {type_!r} already has a handler. Each type has one."
                raise InvalidHandler(msg)
            handler = make_handler(type_, target, timeout=timeout, retry=retry, executor=executor)
            self.tasks[type_] = TaskFunction(self, handler, options or {})
            return self.tasks[type_]

        if function is None or isinstance(function, str):
            return lambda target: make(target, function)
        return make(function)

    async def queue(self) -> Queue:
        """The queue of this application; connected on first use."""
        if self._queue is None:
            if self._connecting is None:
                self._connecting = asyncio.ensure_future(self._connect())
            connecting = self._connecting
            try:
                self._queue = await asyncio.shield(connecting)
            finally:
                # A store that was away is tried again by the next use.
                if connecting.done():
                    self._connecting = None
        return self._queue

    def observe(self, *subscribers: Subscriber) -> Self:
        """Tell these what happens to the tasks of this application: `app.observe(Tracing())`."""
        for subscriber in subscribers:
            check_subscriber(subscriber)
        self._observers += subscribers
        if self._queue is not None:
            self._queue.observe(*subscribers)
        return self

    async def _connect(self) -> Queue:
        return (await connect(self.url)).observe(*self._observers)

    def worker(self, queue: Queue, **settings: Any) -> Worker:
        """A worker for all tasks of this application."""
        handlers = [task.handler for task in self.tasks.values()]
        return Worker(queue, **{**self.worker_settings, **settings}, handlers=handlers)

    async def close(self) -> None:
        """Let go of the queue; the next use connects again."""
        queue, self._queue, self._connecting = self._queue, None, None
        if queue is not None:
            await queue.close()

    async def __aenter__(self) -> Self:
        await self.queue()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
