"""The schema: set up once, however many start together, under any name, and refused when it is too new."""

import asyncio
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec
import psycopg
import pytest

from tenure import InvalidURL, StoreTooNew, StoreUnavailable, StoreUnusable, Worker, connect, lifecycle
from tenure.stores import schema
from tenure.stores.base import Query
from tenure.stores.postgres.address import read_address
from tenure.stores.postgres.migrating import scripts
from tenure.task import TaskStatus, encode
from tenure.testing.conformance.steps import brought_to, claim, ids

NEWEST = len(scripts("tenure"))
EVERY_VERSION = [(version,) for version in range(1, NEWEST + 1)]
START = "import asyncio, sys, tenure; asyncio.run(tenure.connect(sys.argv[1])._open())"


@pytest.fixture
def named(postgres_server, postgres_admin):
    """The address of a schema that is not there yet."""
    postgres_admin.execute("DROP SCHEMA IF EXISTS jobs CASCADE")
    yield f"{postgres_server.url}?schema=jobs"
    postgres_admin.execute("DROP SCHEMA IF EXISTS jobs CASCADE")


async def test_twenty_that_start_at_once_set_it_up_once(named, postgres_admin):
    async def start():
        return await connect(named)

    queues = await asyncio.gather(*(start() for _ in range(20)))
    assert postgres_admin.execute("SELECT version FROM jobs.schema_versions").fetchall() == EVERY_VERSION
    tasks = await asyncio.gather(*(queue.submit("greet", number) for number, queue in enumerate(queues)))
    assert len({task.id for task in tasks}) == 20
    for queue in queues:
        await queue.close()


def test_processes_that_start_at_once_set_it_up_once(named, postgres_admin):
    programs = [subprocess.Popen([sys.executable, "-c", START, named]) for _ in range(4)]
    assert [program.wait(60) for program in programs] == [0] * 4
    assert postgres_admin.execute("SELECT version FROM jobs.schema_versions").fetchall() == EVERY_VERSION


async def test_schemas_of_two_names_know_nothing_of_each_other(queue, named):
    async with connect(named) as other:
        mine = await queue.submit("greet", "mine", task_id="same", ordering_key="k")
        theirs = await other.submit("greet", "theirs", task_id="same", ordering_key="k")
        assert (mine.created, theirs.created) == (True, True)
        worker = Worker(other, poll=0.05)

        @worker.task("greet")
        async def greet(input: str) -> str:
            return input

        await worker.run(until_idle=True)
        assert (await other.get("same")).output == "theirs"
        assert (await queue.get("same")).status == "pending"


@pytest.mark.parametrize("name", ["", "Jobs", "my-jobs", 'a"b', "1a", "x" * 49, "a.b"])
def test_a_name_that_could_be_misread_is_refused(name):
    with pytest.raises(InvalidURL, match="small letters, digits and underscores"):
        read_address(f"postgresql://db/jobs?schema={name}")


@pytest.mark.parametrize("option", ["poll_only=maybe", "connections=0", "transactions=x", "timeout=-1"])
def test_a_value_that_makes_no_sense_is_refused(option):
    with pytest.raises(InvalidURL, match=option.partition("=")[0]):
        read_address(f"postgresql://db/jobs?{option}")


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(InvalidURL, match=r"Unknown option 'speed'.*Known: schema, poll_only"):
        read_address("postgresql://db/jobs?speed=9")


def test_what_the_driver_needs_is_passed_on():
    address = read_address("postgres://ada:pass@db:5433/jobs?schema=mail&sslmode=require&poll_only=yes")
    assert address.dsn == "postgresql://ada:pass@db:5433/jobs?sslmode=require"
    assert (address.schema, address.poll_only) == ("mail", True)
    assert address.shown == "db:5433/jobs"


async def test_a_schema_of_a_newer_tenure_is_refused_untouched(named, postgres_admin):
    async with connect(named):
        pass
    postgres_admin.execute(f"INSERT INTO jobs.schema_versions (version) VALUES ({NEWEST + 1})")
    with pytest.raises(StoreTooNew, match=f"has version {NEWEST + 1}; this Tenure knows versions up to {NEWEST}"):
        await connect(named)
    assert postgres_admin.execute("SELECT max(version) FROM jobs.schema_versions").fetchone() == (NEWEST + 1,)


async def test_a_schema_of_the_first_version_is_brought_up_to_date_and_its_tasks_run(named, postgres_admin):
    now = datetime(2026, 1, 28, 12, tzinfo=UTC)
    waiting = lifecycle.submit(now=now, id="waiting", type="greet", available_at=now, input_json=msgspec.Raw(b'"Ada"'))
    claimed = lifecycle.claim(waiting, worker_id="w1", now=now, lease=timedelta(seconds=30), policy_max=25)
    ran = msgspec.structs.replace(lifecycle.complete(claimed, 1, msgspec.Raw(b"1"), now), id="ran")
    postgres_admin.execute(scripts("jobs")[0])
    columns = "id, version, status, queue, type, priority, attempts, fence, created_at, available_at"
    values = "%s, %s, %s, 'default', 'greet', 0, 0, %s, now(), now()"
    for task, more, also in ((waiting, "blocked, seq", "false, 1"), (ran, "ended_at, seq", "now(), 2")):
        table = "tasks" if task is waiting else "ended"
        postgres_admin.execute(
            f"INSERT INTO jobs.{table} ({columns}, {more}, record) VALUES ({values}, {also}, %s)",
            (task.id, task.version, task.status.value, task.fence, encode(task)),
        )
    async with connect(named) as queue:
        worker = Worker(queue, poll=0.05)

        @worker.task("greet")
        async def greet(input: str) -> str:
            return f"hello {input}"

        assert await worker.run(until_idle=True) == 1
        assert (await queue.get("waiting")).output == "hello Ada"
        assert (await queue.get("ran")).history == ran.history


async def test_a_worker_that_runs_already_goes_on_when_the_schema_becomes_newer(named, postgres_admin):
    async with connect(named) as queue:
        await queue.submit("greet")
        postgres_admin.execute(f"INSERT INTO jobs.schema_versions (version) VALUES ({NEWEST + 1})")
        postgres_admin.execute("ALTER TABLE jobs.tasks ADD COLUMN unheard_of text")
        worker = Worker(queue, poll=0.05)

        @worker.task("greet")
        async def greet(input: None) -> None:
            return None

        assert await worker.run(until_idle=True) == 1


async def test_a_schema_that_is_not_there_and_cannot_be_made_is_said(postgres_server, postgres_admin):
    postgres_admin.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    with pytest.raises(StoreUnusable, match=r"permission denied .* has version 0 of .* CREATE SCHEMA nowhere AUTHORIZ"):
        await connect(f"postgresql://guest@127.0.0.1:{postgres_server.port}/postgres?schema=nowhere")
    postgres_admin.execute("DROP ROLE guest")


async def test_a_user_without_the_right_to_create_can_use_what_is_there(postgres_url, postgres_server, postgres_admin):
    postgres_admin.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    postgres_admin.execute("GRANT USAGE ON SCHEMA tenure TO guest")
    postgres_admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA tenure TO guest")
    postgres_admin.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA tenure TO guest")
    async with connect(f"postgresql://guest@127.0.0.1:{postgres_server.port}/postgres") as queue:
        assert (await queue.submit("greet")).created
    postgres_admin.execute("DROP OWNED BY guest; DROP ROLE guest")


@pytest.mark.parametrize("known", [0, 1], ids=["sets it up", "brings it up to date"])
async def test_the_owner_of_the_schema_needs_no_right_to_create_schemas(named, postgres_server, postgres_admin, known):
    postgres_admin.execute("DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN; CREATE SCHEMA jobs AUTHORIZATION app")
    url = f"postgresql://app@127.0.0.1:{postgres_server.port}/postgres"
    with psycopg.connect(url, autocommit=True) as owner:
        for script in scripts("jobs")[:known]:
            owner.execute(script)
    async with connect(f"{url}?schema=jobs") as queue:
        assert (await queue.submit("greet")).created
    postgres_admin.execute("DROP OWNED BY app; DROP ROLE app")


async def test_a_user_without_rights_is_told_of_the_sequence_too(named, postgres_server, postgres_admin):
    async with connect(named):
        pass
    postgres_admin.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA jobs TO guest")
    postgres_admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA jobs TO guest")
    async with connect(f"postgresql://guest@127.0.0.1:{postgres_server.port}/postgres?schema=jobs") as queue:
        with pytest.raises(StoreUnusable, match="all rights on its tables and on its sequence"):
            await queue.submit("greet")
    postgres_admin.execute("DROP OWNED BY guest; DROP ROLE guest")


@pytest.fixture
def reader(named, postgres_server, postgres_admin):
    """A transaction that has read a table which a newer version changes, and is still open."""
    postgres_admin.execute(scripts("jobs")[0])
    with psycopg.connect(postgres_server.url, application_name="report") as reader:
        reader.execute("SELECT count(*) FROM jobs.ended")
        yield reader


async def test_nobody_waits_for_long_behind_a_change_of_the_schema_that_waits(
    named, reader, postgres_server, monkeypatch
):
    monkeypatch.setattr("tenure.stores.postgres.migrating.LOCK_PATIENCE", "50ms")
    monkeypatch.setattr("tenure.stores.postgres.migrating.PAUSE", 0.01)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'jobs.ended'::regclass"
    with psycopg.connect(postgres_server.url, autocommit=True, options="-c lock_timeout=5s") as other:
        start = asyncio.ensure_future(schema_brought_up_to_date(named))
        while not other.execute(waiting).fetchone()[0]:
            await asyncio.sleep(0.001)
        assert other.execute("SELECT count(*) FROM jobs.ended").fetchone() == (0,)
        reader.rollback()
        assert await start == (NEWEST, NEWEST)


async def schema_brought_up_to_date(url):
    async with connect(url):
        return await schema.versions(url)


async def test_whoever_is_in_the_way_of_a_change_of_the_schema_is_named(named, reader, monkeypatch):
    monkeypatch.setattr("tenure.stores.postgres.migrating.LOCK_PATIENCE", "1ms")
    monkeypatch.setattr("tenure.stores.postgres.migrating.PAUSE", 0)
    pid = reader.info.backend_pid
    with pytest.raises(
        StoreUnavailable, match=rf"in use by process {pid} .*'report'.* SELECT count.* Nothing was chang"
    ):
        await connect(named)
    assert await schema.versions(named) == (1, NEWEST)


async def test_the_owner_hears_of_another_user_who_is_in_the_way(named, postgres_server, postgres_admin, monkeypatch):
    monkeypatch.setattr("tenure.stores.postgres.migrating.LOCK_PATIENCE", "1ms")
    monkeypatch.setattr("tenure.stores.postgres.migrating.PAUSE", 0)
    postgres_admin.execute("DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN; CREATE SCHEMA jobs AUTHORIZATION app")
    url = f"postgresql://app@127.0.0.1:{postgres_server.port}/postgres"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(scripts("jobs")[0])
    with psycopg.connect(postgres_server.url) as reader:
        reader.execute("SELECT count(*) FROM jobs.ended")
        words = rf"process {reader.info.backend_pid} .*'postgres'.*, whose statements this user may not see"
        with pytest.raises(StoreUnavailable, match=words):
            await connect(f"{url}?schema=jobs")
    postgres_admin.execute("DROP OWNED BY app; DROP ROLE app")


async def test_a_database_that_cannot_hold_every_name_is_refused_at_once(postgres_server, other_database):
    other_database("LATIN1")
    with pytest.raises(StoreUnusable, match=r"encoded as LATIN1.* CREATE DATABASE .* ENCODING 'UTF8'"):
        await connect(postgres_server.url.removesuffix("postgres") + "other")


async def test_a_database_without_an_encoding_holds_every_name(postgres_server, other_database):
    other_database("SQL_ASCII")
    async with connect(postgres_server.url.removesuffix("postgres") + "other") as queue:
        task = await queue.submit("grüße-日本", queue="☕")
        assert [each.id for each in (await queue.list(type="grüße-日本", queue="☕")).tasks] == [task.id]


async def test_a_connection_of_psycopg_to_a_database_without_an_encoding_finds_keys(postgres_server, other_database):
    other_database("SQL_ASCII")
    url = postgres_server.url.removesuffix("postgres") + "other"
    async with connect(url) as queue:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            options = {"connection": connection, "idempotency_key": "größe"}
            tasks = [await queue.submit("grüße", **options) for _ in range(2)]
        with psycopg.connect(url) as blocking:
            tasks.append(await queue.submit("grüße", **(options | {"connection": blocking})))
        assert [task.created for task in tasks] == [True, False, False]
        assert len({task.id for task in tasks}) == 1


@pytest.fixture
def other_database(postgres_admin):
    """Makes a database that is encoded in another way."""

    def make(encoding):
        postgres_admin.execute(f"CREATE DATABASE other ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")

    yield make
    postgres_admin.execute("DROP DATABASE other WITH (FORCE)")


async def test_a_paused_queue_holds_up_no_other_where_backslashes_have_a_meaning_in_texts(postgres_url, postgres_admin):
    postgres_admin.execute("ALTER ROLE postgres SET standard_conforming_strings = off")
    try:
        async with connect(postgres_url) as queue:
            await queue.pause("mail", resume_after=3600)
            await queue.submit("greet", queue="mail")
            other = await queue.submit("greet")
            assert ids(await claim(queue.store, 5, queues=("mail", "default"))) == [other.id]
    finally:
        postgres_admin.execute("ALTER ROLE postgres RESET standard_conforming_strings")


async def test_the_printed_scripts_make_the_same_schema(named, postgres_admin):
    for script in scripts("jobs"):
        postgres_admin.execute(script)
    assert await schema.versions(named) == (NEWEST, NEWEST)
    async with connect(named) as queue:
        assert (await queue.submit("greet")).created


async def test_the_version_can_be_asked_without_a_change(named, postgres_admin):
    assert await schema.versions(named) == (0, NEWEST)
    assert postgres_admin.execute("SELECT to_regnamespace('jobs')").fetchone() == (None,)


@pytest.mark.parametrize(
    "lie",
    [
        "status = 'completed'",
        "lease_expires_at = NULL",
        "worker_id = NULL",
        "status = 'pending'",
        "claimed_at = NULL",
    ],
)
async def test_the_database_itself_ties_a_lease_to_its_status(queue, postgres_admin, lie):
    task = await brought_to(queue, "running")
    with pytest.raises(psycopg.errors.CheckViolation):
        postgres_admin.execute(f"UPDATE tenure.tasks SET {lie} WHERE id = %s", [task.id])


async def test_the_database_itself_keeps_open_tasks_out_of_the_ended_ones(queue, postgres_admin):
    task = await brought_to(queue, "completed")
    for lie in ("status = 'running'", "ended_at = NULL"):
        with pytest.raises(psycopg.errors.CheckViolation):
            postgres_admin.execute(f"UPDATE tenure.ended SET {lie} WHERE id = %s", [task.id])


async def test_the_store_tells_about_itself(queue):
    about = await queue.store.about()
    assert about["store"].startswith("PostgreSQL ")
    assert about["schema"] == f"tenure, version {NEWEST}"
    assert about["news"] == "LISTEN/NOTIFY"


async def test_its_own_statements_survive_any_time_zone_of_the_server(queue, postgres_url, postgres_admin):
    postgres_admin.execute("ALTER ROLE postgres SET timezone = 'Pacific/Apia'")
    try:
        connection = await asyncpg.connect(postgres_url)
        task = await queue.submit("greet", delay=3600, connection=connection)
        await connection.close()
        async with connect(postgres_url) as other:
            assert (await other.get(task.id)) == task
    finally:
        postgres_admin.execute("ALTER ROLE postgres RESET timezone")


async def test_keys_are_longer_than_an_index_can_hold(queue):
    """Letters without a pattern, which no compression makes shorter."""
    dice = random.Random(1)
    long = ["".join(chr(dice.randrange(0x10000, 0x20000)) for _ in range(1024)) for _ in range(2)]
    words = [{"ordering_key": key, "idempotency_key": key, "idempotency_scope": key} for key in long]
    tasks = [await queue.submit("greet", **each) for each in words]
    assert [(await queue.submit("greet", **each)).id for each in words] == [task.id for task in tasks]
    follower = await queue.submit("greet", ordering_key=long[0])
    assert ids(await claim(queue.store, 3)) == ids(tasks)
    page = await queue.store.find(Query(status=TaskStatus.Pending, ordering_key=long[0]))
    assert ids(page.tasks) == [follower.id]
