"""One object for an application: typed tasks that can be submitted or called."""

from datetime import UTC, datetime

import pydantic
import pytest

from tenure import InvalidHandler, InvalidInput, StoreUnusable, TaskStatus, Tenure


class Reminder(pydantic.BaseModel):
    user_id: str
    urgent: bool = False


@pytest.fixture
async def app(url):
    app = Tenure(url)
    yield app
    await app.close()


async def test_a_typed_submit_refuses_bad_input_before_anything_is_stored(app):
    @app.task
    async def remind(input: Reminder) -> str:
        return input.user_id

    with pytest.raises(InvalidInput, match=r"input does not fit 'remind'[\s\S]*user_id"):
        await remind.submit({"user": 5})
    with pytest.raises(InvalidInput, match="does not fit"):
        await remind.submit_many([Reminder(user_id="1"), {"user": 5}])
    queue = await app.queue()
    assert sum((await queue.counts()).values()) == 0


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr | None = None
    photo: bytes = b""

    @pydantic.field_validator("user")
    @classmethod
    def known(cls, user: str) -> str:
        return {"ada": "ada"}[user]


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({"user": "ada", "photo": b"\xff"}, "input of Login is not JSON"),
        ({"user": "ada", "password": "hunter2"}, "input.password of Login is lost in JSON"),
        ({"user": "bob"}, "input does not fit 'log_in': KeyError: 'bob'"),
    ],
)
async def test_whatever_goes_wrong_with_an_input_is_told_as_one_kind_of_error(app, input, words):
    @app.task
    async def log_in(input: Login): ...

    with pytest.raises(InvalidInput) as refusal:
        await log_in.submit(input)
    assert words in str(refusal.value)
    assert sum((await (await app.queue()).counts()).values()) == 0


class Aliased(pydantic.BaseModel):
    user_id: int = pydantic.Field(alias="userId")


async def test_models_with_aliases_reach_the_handler_wherever_they_stand_in_its_annotation(app):
    seen = []

    @app.task
    async def greet(input: dict[str, list[Aliased]]):
        seen.append(input)

    await greet.submit({"all": [Aliased(userId=5)]})
    await app.worker(await app.queue()).run(until_idle=True)
    assert seen == [{"all": [Aliased(userId=5)]}]


async def test_what_was_submitted_is_what_the_handler_gets(app):
    seen = []

    @app.task
    async def remind(input: Reminder):
        seen.append(input)

    await remind.submit(Reminder(user_id="1"))
    await remind.submit({"user_id": "2", "urgent": True})
    await remind.submit_many([Reminder(user_id="3")])
    await app.worker(await app.queue()).run(until_idle=True)
    assert seen == [Reminder(user_id="1"), Reminder(user_id="2", urgent=True), Reminder(user_id="3")]


async def test_options_of_a_task_are_defaults_of_its_submits(app):
    @app.task("mail.send", timeout=30, options={"queue": "mail", "priority": 5, "max_attempts": 3})
    async def send(input: str): ...

    assert send.type == "mail.send"
    by_default = await send.submit("x")
    assert (by_default.queue, by_default.priority, by_default.max_attempts) == ("mail", 5, 3)
    assert (await send.submit("x", priority=9)).priority == 9
    assert [task.queue for task in await send.submit_many(["a", "b"], queue="bulk")] == ["bulk", "bulk"]


async def test_a_submit_may_say_otherwise_in_another_word(app):
    @app.task(options={"ttl": 60, "delay": 5, "max_attempts": 3})
    async def send(input: str): ...

    later = datetime(2035, 1, 1, tzinfo=UTC)
    task = await send.submit("x", expires_at=later, run_at=later, max_retries=6)
    assert (task.expires_at, task.available_at, task.max_attempts) == (later, later, 7)
    (queued,) = await (await app.queue()).submit_many([("send", "x", {"expires_at": later})], ttl=5)
    assert queued.expires_at == later


async def test_a_task_is_still_a_function(app):
    @app.task
    async def double(input: int) -> int:
        """Twice as much."""
        return 2 * input

    @app.task
    def triple(input: int) -> int:
        return 3 * input

    assert (await double(4), triple(4)) == (8, 12)
    assert (double.__name__, double.__doc__, repr(double)) == ("double", "Twice as much.", "<task 'double'>")


async def test_each_type_has_one_task_and_every_function_must_be_able_to_serve(app):
    @app.task
    async def job(input): ...

    with pytest.raises(InvalidHandler, match="already has a handler"):
        app.task("job")(lambda _: None)
    with pytest.raises(InvalidHandler, match="async def handler"):

        @app.task
        async def nothing(): ...

    assert list(app.tasks) == ["job"]


async def test_settings_of_the_application_go_to_its_workers(url):
    async with Tenure(url, concurrency=3, worker_id="w1") as app:

        @app.task
        async def job(input): ...

        queue = await app.queue()
        assert (app.worker(queue).concurrency, app.worker(queue, concurrency=5).concurrency) == (3, 5)
        assert app.worker(queue).types == ("job",)


async def test_an_application_connects_once_and_again_after_it_was_closed(url):
    app = Tenure(url)
    first = await app.queue()
    assert await app.queue() is first
    await app.close()
    await app.close()
    second = await app.queue()
    assert second is not first
    await app.close()


async def test_an_application_whose_store_was_not_there_at_first_can_connect_later(tmp_path):
    app = Tenure(f"sqlite:///{tmp_path}/folder/jobs.db")

    @app.task
    async def job(input): ...

    with pytest.raises(StoreUnusable, match="does not exist"):
        await job.submit(1)
    (tmp_path / "folder").mkdir()
    assert (await job.submit(1)).status is TaskStatus.Pending
    await app.close()
