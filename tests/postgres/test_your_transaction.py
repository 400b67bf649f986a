"""A submit can be a part of the user's own transaction: it commits with it, and it is undone with it."""

import asyncio
import contextlib
import functools

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import tenure.sync
from tenure import IdempotencyConflict, InvalidInput, StoreUnusable, connect
from tenure.observe import rounds
from tenure.observe.events import Subscriber
from tenure.stores.postgres.inserting import Insert

INSERT = "INSERT INTO ledger VALUES ('ada', 1)"


class Undo(Exception):
    """Why the user's transaction is not committed."""


class OfAsyncpg:
    @contextlib.asynccontextmanager
    async def begin(self, url):
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    async def write(self, connection, statement=INSERT):
        await connection.execute(statement)


class OfPsycopg:
    @contextlib.asynccontextmanager
    async def begin(self, url):
        async with await psycopg.AsyncConnection.connect(url) as connection:
            yield connection

    async def write(self, connection, statement=INSERT):
        await connection.execute(statement)


class OfPsycopgBlocking:
    @contextlib.asynccontextmanager
    async def begin(self, url):
        with psycopg.connect(url) as connection:
            yield connection

    async def write(self, connection, statement=INSERT):
        connection.execute(statement)


class OfSqlalchemy:
    """A session that works with `await`, over the driver that the address names."""

    def __init__(self, driver):
        self.driver = driver

    @contextlib.asynccontextmanager
    async def begin(self, url):
        engine = create_async_engine(url.replace("postgresql:", f"postgresql+{self.driver}:"))
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield session
        finally:
            await engine.dispose()

    async def write(self, session, statement=INSERT):
        await session.execute(sqlalchemy.text(statement))


class OfSqlalchemyBlocking:
    @contextlib.asynccontextmanager
    async def begin(self, url):
        engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        try:
            with Session(engine) as session, session.begin():
                yield session
        finally:
            engine.dispose()

    async def write(self, session, statement=INSERT):
        session.execute(sqlalchemy.text(statement))


DRIVERS = {
    "asyncpg": OfAsyncpg(),
    "psycopg": OfPsycopg(),
    "psycopg, blocking": OfPsycopgBlocking(),
    "SQLAlchemy over asyncpg": OfSqlalchemy("asyncpg"),
    "SQLAlchemy over psycopg": OfSqlalchemy("psycopg_async"),
    "SQLAlchemy, blocking": OfSqlalchemyBlocking(),
}
OPTIONS = {
    "plain": {},
    "with a key": {"idempotency_key": "order-1"},
    "with an id": {"task_id": "mine"},
    "with an ordering key and tags": {"ordering_key": "user-1", "tags": ["a", "b"]},
}

drivers = pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
options = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@drivers
@options
async def test_it_is_invisible_before_the_commit_and_there_after_it(queue, postgres_url, ledger, driver, options):
    async with driver.begin(postgres_url) as connection:
        task = await queue.submit("greet", {"n": 1}, connection=connection, **options)
        await driver.write(connection)
        assert await queue.get(task.id) is None
        assert (await queue.counts())["pending"] == 0
    assert (await queue.get(task.id)) == task
    assert (await queue.counts())["pending"] == 1
    assert ledger() == [("ada", 1)]


@drivers
@options
@pytest.mark.parametrize("first", ["submit", "write"])
async def test_it_is_undone_with_the_rest(queue, postgres_url, ledger, driver, options, first):
    with contextlib.suppress(Undo):
        async with driver.begin(postgres_url) as connection:
            if first == "write":
                await driver.write(connection)
            task = await queue.submit("greet", connection=connection, **options)
            if first == "submit":
                await driver.write(connection)
            raise Undo
    assert await queue.get(task.id) is None
    assert ledger() == []
    again = await queue.submit("greet", **options)
    assert again.created


@drivers
async def test_a_conflict_of_keys_undoes_nothing_else(queue, postgres_url, ledger, driver):
    await queue.submit("greet", {"n": 1}, idempotency_key="order-1")
    async with driver.begin(postgres_url) as connection:
        await driver.write(connection)
        with pytest.raises(IdempotencyConflict):
            await queue.submit("greet", {"n": 2}, idempotency_key="order-1", connection=connection)
        other = await queue.submit("greet", {"n": 3}, connection=connection)
    assert ledger() == [("ada", 1)]
    assert (await queue.get(other.id)) is not None


@drivers
async def test_a_repeat_finds_the_task_of_its_own_transaction(queue, postgres_url, driver):
    async with driver.begin(postgres_url) as connection:
        first = await queue.submit("greet", idempotency_key="order-1", connection=connection)
        again = await queue.submit("greet", idempotency_key="order-1", connection=connection)
        assert (again.id, again.created) == (first.id, False)
    assert (await queue.counts())["pending"] == 1


@drivers
async def test_a_batch_is_a_part_of_the_transaction_too(queue, postgres_url, driver):
    async with driver.begin(postgres_url) as connection:
        tasks = await queue.submit_many([("greet", n) for n in range(3)], connection=connection, queue="mail")
        assert (await queue.counts("mail"))["pending"] == 0
    assert [task.id for task in (await queue.list(queue="mail")).tasks] == [task.id for task in reversed(tasks)]


class OwnConnection(psycopg.AsyncConnection):
    """As people make one to set something for all of theirs."""


class OwnSession(Session):
    """As SQLModel and Flask-SQLAlchemy have one."""


class OwnAsyncSession(AsyncSession):
    """The same with `await`."""


@contextlib.asynccontextmanager
async def own_connection(url):
    async with await OwnConnection.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def own_session(url, *, scoped=False):
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    session = scoped_session(sessionmaker(engine)) if scoped else OwnSession(engine)
    try:
        with session.begin():
            yield session
    finally:
        session.close()
        engine.dispose()


@contextlib.asynccontextmanager
async def own_async_session(url, *, scoped=False):
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    made = async_sessionmaker(engine)
    session = async_scoped_session(made, asyncio.current_task) if scoped else OwnAsyncSession(engine)
    try:
        async with session.begin():
            yield session
    finally:
        await session.close()
        await engine.dispose()


@pytest.mark.parametrize(
    "begin",
    [
        own_connection,
        own_session,
        own_async_session,
        functools.partial(own_session, scoped=True),
        functools.partial(own_async_session, scoped=True),
    ],
    ids=["psycopg", "SQLAlchemy, blocking", "SQLAlchemy", "scoped, blocking", "scoped"],
)
async def test_classes_of_ones_own_and_scoped_sessions_are_taken_for_what_they_stand_for(queue, postgres_url, begin):
    with contextlib.suppress(Undo):
        async with begin(postgres_url) as connection:
            undone = await queue.submit("greet", connection=connection)
            raise Undo
    async with begin(postgres_url) as connection:
        kept = await queue.submit("greet", connection=connection)
        assert await queue.get(kept.id) is None
    assert await queue.get(undone.id) is None
    assert await queue.get(kept.id) == kept


def test_a_scoped_session_of_another_thread_is_refused_since_nobody_would_commit_it(postgres_url):
    engine = sqlalchemy.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    scoped = scoped_session(sessionmaker(engine))
    with tenure.sync.connect(postgres_url) as queue, scoped.begin():
        with pytest.raises(InvalidInput, match=r"no session in this scope.*connection=scoped\(\)"):
            queue.submit("greet", connection=scoped)
        task = queue.submit("greet", connection=scoped())
        assert queue.get(task.id) is None
        scoped.commit()
        assert queue.get(task.id) == task
    scoped.remove()
    engine.dispose()


@drivers
async def test_a_connection_to_another_database_is_refused_in_words(queue, postgres_url, driver):
    elsewhere = postgres_url.removesuffix("postgres") + "template1"
    async with driver.begin(elsewhere) as connection:
        with pytest.raises(InvalidInput, match=r"without the tables of this queue .* use a connection to the same"):
            await queue.submit("greet", connection=connection)


@drivers
async def test_a_transaction_that_has_failed_is_refused_in_words(queue, postgres_url, ledger, driver):
    with contextlib.suppress(Undo):
        async with driver.begin(postgres_url) as connection:
            with pytest.raises(Exception, match="division by zero"):
                await driver.write(connection, "SELECT 1 / 0")
            with pytest.raises(InvalidInput, match="has failed in an earlier statement"):
                await queue.submit("greet", connection=connection)
            raise Undo


async def test_a_user_who_may_not_submit_is_told_what_to_grant(queue, postgres_url, postgres_admin):
    postgres_admin.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    told = pytest.raises(StoreUnusable, match=r"user of connection= may not submit .* Grant this user what")
    with psycopg.connect(postgres_url.replace("postgres@", "guest@")) as connection, told:
        await queue.submit("greet", connection=connection)
    postgres_admin.execute("DROP ROLE guest")


async def test_a_transaction_to_make_again_is_told_by_the_drivers_own_error(queue, postgres_url, monkeypatch):
    """A task may end at the moment when its id is submitted again."""

    async def run(*_, **__):
        msg = "a task with this id has ended"
        raise asyncpg.SerializationError(msg)

    monkeypatch.setattr(Insert, "run", run)
    for name, error in (("asyncpg", asyncpg.SerializationError), ("psycopg", psycopg.errors.SerializationFailure)):
        async with DRIVERS[name].begin(postgres_url) as connection:
            with pytest.raises(error):
                await queue.submit("greet", task_id="mine", connection=connection)


async def test_what_is_of_sqlalchemy_but_has_no_transaction_is_refused_like_any_other(queue, postgres_url):
    engine = sqlalchemy.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    for unknown in (engine, sessionmaker(engine)):
        with pytest.raises(InvalidInput, match="Known: connections of asyncpg and psycopg 3"):
            await queue.submit("greet", connection=unknown)


async def test_without_a_transaction_the_submit_is_one(queue, postgres_url):
    connection = await asyncpg.connect(postgres_url)
    task = await queue.submit("greet", idempotency_key="k", connection=connection)
    assert (await queue.get(task.id)) == task
    await connection.close()
    with psycopg.connect(postgres_url, autocommit=True) as plain:
        task = await queue.submit("greet", idempotency_key="l", connection=plain)
        assert (await queue.get(task.id)) == task


async def test_two_transactions_with_one_key_make_one_task(queue, postgres_url):
    first, second = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    async with first.transaction():
        mine = await queue.submit("greet", idempotency_key="k", connection=first)
    async with second.transaction():
        theirs = await queue.submit("greet", idempotency_key="k", connection=second)
    assert (theirs.id, theirs.created) == (mine.id, False)
    await first.close()
    await second.close()


def test_a_blocking_queue_takes_a_blocking_connection(postgres_url, ledger):
    with tenure.sync.connect(postgres_url) as queue, psycopg.connect(postgres_url) as connection:
        task = queue.submit("greet", connection=connection)
        connection.execute(INSERT)
        connection.rollback()
        assert queue.get(task.id) is None
        assert ledger() == []


async def test_a_task_of_an_ordering_key_waits_for_nobody_who_has_not_committed(queue, postgres_url):
    connection = await asyncpg.connect(postgres_url)
    transaction = connection.transaction()
    await transaction.start()
    await queue.submit("greet", "first", ordering_key="k", connection=connection)
    second = await queue.submit("greet", "second", ordering_key="k")
    assert (await queue.get(second.id)).status == "pending"
    await transaction.rollback()
    await connection.close()


@pytest.mark.parametrize("connection", [[], "postgresql://", 5], ids=repr)
async def test_an_unknown_connection_is_answered_with_the_known_ones(queue, connection):
    with pytest.raises(InvalidInput, match="Known: connections of asyncpg and psycopg 3"):
        await queue.submit("greet", connection=connection)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_other_stores_say_which_one_has_it(url, tmp_path):
    async with connect(url.format(tmp_path)) as queue:
        with pytest.raises(InvalidInput, match="A PostgreSQL store has that"):
            await queue.submit("greet", connection=object())


class Heard(Subscriber):
    """Keeps what was submitted."""

    def __init__(self):
        self.inputs = []

    def happened(self, events):
        self.inputs += [event.task.input for event in events]


async def test_a_producer_that_only_submits_so_tells_what_was_committed_while_it_runs(queue, postgres_url, monkeypatch):
    monkeypatch.setattr(rounds, "SOON", 0.01)
    heard = Heard()
    queue.observe(heard)
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await queue.submit("greet", "early", connection=connection)
        await queue.events.resolve(queue.store)
        assert heard.inputs == []
    with contextlib.suppress(Undo):
        async with connection.transaction():
            await queue.submit("greet", "undone", connection=connection)
            raise Undo
    async with asyncio.timeout(30):
        while not heard.inputs:
            await asyncio.sleep(0.01)
    async with connection.transaction():
        await queue.submit_many([("greet", number) for number in range(1200)], connection=connection)
    await connection.close()
    await queue.close()
    early, *others = heard.inputs
    assert (early, sorted(others)) == ("early", list(range(1200)))
