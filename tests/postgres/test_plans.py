"""Which index leads to what: the plans of the statements, on a store where a great deal stands in the way."""

import re
from datetime import timedelta

import asyncpg
import pytest
from postgres_backlogs import fill

from tenure import connect
from tenure.stores.base import Query
from tenure.stores.postgres.claiming import LEVELS
from tenure.stores.postgres.finding import _statement
from tenure.stores.postgres.records import Statements
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import claim, complete, want

statements = Statements("tenure")

NOW = "2026-01-28 12:00+00"
PLANS = {
    "claim": ("NULL, '{default,mail}', '{greet,write}', '{25,25}', 100, 30000000, 'w', false, 64", {"tasks_runnable", "tasks_leases", "tasks_deadlines", "tasks_pkey", "notes_pkey"}),
    "insert": ("'{a}', '{q}', '{t}', '{0}', '{now}', '{now}', '{NULL}', '{NULL}', '{x}', '{}', '{}'", {"ended_id_key"}),
    "insert_new": ("'{a}', '{q}', '{t}', '{0}', '{now}', '{now}', '{NULL}', '{x}', 'a', 'a'", {"ended_id_key"}),
    "insert_one": ("'a', 'q', 't', 0, 'now', 'now', NULL, 'x'", {"ended_id_key"}),
    "finish": ("'{a}', '{1}', '{now}', NULL", {"tasks_id_key"}),
    "swap_to_ended": ("'{a}', '{1}', '{completed}', '{0}', '{now}', NULL, '{f}', '{x}'", {"tasks_id_key"}),
    "swap_open": ("'{a}', '{1}', '{NULL}', '{running}', '{2}', '{pending}', '{1}', '{1}', '{now}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{f}', '{x}'", {"tasks_id_key"}),
    "swap_ended": ("'{a}', '{1}', '{completed}', '{2}', '{archived}', '{now}', '{x}'", {"ended_id_key"}),
    "swap_to_open": ("'{a}', '{1}', '{failed}', '{2}', '{pending}', '{0}', '{1}', '{now}', '{NULL}', '{f}', '{x}'", {"ended_id_key"}),
    "renew": ("NULL, '{a}', '{1}', '{30000000}', '{NULL}'", {"tasks_id_key"}),
    "get": ("'{a,b}'", {"tasks_id_key", "ended_id_key"}),
    "lapsed": (f"'{NOW}', 10", {"tasks_leases"}),
    "late": (f"'{NOW}', 10", {"tasks_deadlines"}),
    "count_lapsed": (f"NULL, '{NOW}', 10", {"tasks_leases"}),
    "count_late": (f"'{NOW}', '{NOW}', 10", {"tasks_deadlines"}),
    "prunable": (f"'completed', '{NOW}', 10", {"ended_by_end"}),
    "ended_versions": ("'{a}', '{1}'", {"ended_id_key"}),
    "delete_ended": ("'{a}', '{t}', '{1}'", {"ended_id_key", "tags_pkey"}),
    "prune_reservations": (f"'{NOW}', 10", {"reservations_stale", "reservations_pkey"}),
    "prune_stones": (f"'{NOW}', 10", {"stones_forgettable", "stones_pkey"}),
    "dump_tasks": ("5, 10", {"tasks_pkey", "ended_pkey"}),
    "lock_task": ("'a'", {"tasks_id_key"}),
}  # fmt: skip
LISTINGS = {
    "completed": (Query(status=TaskStatus.Completed), {"ended_by_end"}),
    "completed, of a type": (Query(status=TaskStatus.Completed, type="greet"), {"ended_by_end"}),
    "pending": (Query(status=TaskStatus.Pending), {"tasks_pkey"}),
    "running": (Query(status=TaskStatus.Running), {"tasks_leases"}),
    "asked to stop": (
        Query(status=TaskStatus.Running, worker_id="w", cancel_requested=True), {"tasks_asked_to_stop"},
    ),
    "of a key": (Query(status=TaskStatus.Pending, ordering_key="k"), {"tasks_ordering"}),
    "everything": (Query(), {"tasks_pkey", "ended_pkey"}),
}  # fmt: skip


CROWD = {"ended": 30_000, "scheduled": 30_000, "stuck": 10_000, "running": 1000}


@pytest.fixture
def crowded(postgres_server, empty_postgres, postgres_admin):
    """A store with many tasks that no claim should meet. It stays as it is until another test empties it."""
    if postgres_admin.execute("SELECT count(*) FROM tenure.everything").fetchone() != (sum(CROWD.values()),):
        empty_postgres()
        fill(postgres_admin, **CROWD)
    return postgres_server.url


@pytest.fixture
async def db(crowded):
    """A connection as the store opens them."""
    async with connect(crowded) as queue, queue.store._connections.lend() as connection:
        yield connection


async def plan(db, statement, values):
    await db.execute(f"PREPARE plan AS {statement}")
    try:
        rows = await db.fetch(f"EXPLAIN EXECUTE plan ({values})")
    finally:
        await db.execute("DEALLOCATE plan")
    return "\n".join(row[0] for row in rows)


def indexes(text):
    """The indexes that lead to tasks; who listens is looked up through whatever is there."""
    return set(re.findall(r"Index (?:Only )?Scan(?: Backward)? using (\w+)", text)) - {"listeners_pkey"}


def walked(text):
    """Tables that are read from end to end, other than those that are nearly empty by nature."""
    return set(re.findall(r"Seq Scan on (\w+)", text)) - {"turns", "listeners"}


@pytest.mark.parametrize("name", PLANS)
async def test_each_statement_finds_its_tasks_through_an_index(db, name):
    await found_through_indexes(db, name)


@pytest.fixture
async def forgotten(empty_postgres, postgres_admin, postgres_url):
    """A connection to a store that was full, is empty, and is known to be by the server: it will be so again before the next look."""
    empty_postgres()
    fill(postgres_admin, ended=5000, scheduled=5000, stuck=5000, running=5000)
    for table in ("tasks", "ended", "tags", "turns"):
        postgres_admin.execute(f"DELETE FROM tenure.{table}")
        postgres_admin.execute(f"ANALYZE tenure.{table}")
    async with connect(postgres_url) as queue, queue.store._connections.lend() as connection:
        yield connection
    empty_postgres()
    postgres_admin.execute("VACUUM ANALYZE")


@pytest.mark.parametrize("name", PLANS)
async def test_no_statement_counts_on_tables_to_be_as_small_as_they_were(forgotten, name):
    await found_through_indexes(forgotten, name)


async def test_no_step_of_a_turn_counts_on_it(forgotten):
    steps = [step for step in statements("give_turns").split(";") if "tenure.tasks" in step]
    for step in steps:
        text = "\n".join(row[0] for row in await forgotten.fetch(f"EXPLAIN {step}"))
        assert not walked(text), text
        assert_led(text)


async def found_through_indexes(db, name):
    values, expected = PLANS[name]
    text = await plan(db, statements(name), values)
    assert indexes(text) == expected, text
    assert not walked(text), text
    assert_led(text)


def assert_led(text):
    for scan, next_line in zip(text.split("\n"), text.split("\n")[1:], strict=False):
        if re.search(r"Scan using \w+ on (tasks|ended)", scan):
            assert "Index Cond" in next_line, f"an index is read from end to end:\n{text}"


async def test_since_when_something_is_due_is_found_without_a_walk_over_tasks(db):
    text = await plan(db, statements("first_due"), f"'{NOW}'")
    assert indexes(text) == {"tasks_runnable", "counts_pkey"}, text
    # The changes of counts are few: they are added up again and again.
    assert walked(text) <= {"count_changes"}, text


async def test_since_when_the_longest_attempt_runs_is_found_among_those_that_run(db):
    text = "\n".join(row[0] for row in await db.fetch(f"EXPLAIN {statements('running_since')}"))
    assert indexes(text) == {"tasks_leases"}, text
    assert not walked(text), text


@pytest.mark.parametrize("name", LISTINGS)
async def test_each_listing_finds_its_tasks_through_an_index(db, name):
    query, expected = LISTINGS[name]
    statement, values = _statement(query, by_end=query.status is not None and query.status.ended)
    literals = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in values)
    text = await plan(db, statement, literals)
    assert indexes(text) == expected, text
    assert not walked(text), text


async def pages_read(db, count=100):
    """How many pages a claim touches. It is undone, so that it can be made again."""
    await db.execute(f"PREPARE claim AS {statements('claim')}")
    transaction = db.transaction()
    await transaction.start()
    values = f"NULL, '{{default}}', '{{greet}}', '{{25}}', {count}, 30000000, 'w', false, {LEVELS}"
    rows = await db.fetch(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE claim ({values})")
    await transaction.rollback()
    await db.execute("DEALLOCATE claim")
    text = "\n".join(row[0] for row in rows)
    hit, read = (re.search(rf"shared.*?{word}=(\d+)", text) for word in ("hit", "read"))
    return sum(int(found[1]) for found in (hit, read) if found), text


async def test_a_claim_of_a_hundred_reads_no_more_beside_a_crowd_than_alone(
    crowded, postgres_admin, empty_postgres, db
):
    async with connect(crowded) as queue:
        await queue.submit_many([("greet", number) for number in range(100)])
        beside, text = await pages_read(db)
        assert "rows=100" in text
        empty_postgres()
        postgres_admin.execute("VACUUM tenure.tasks, tenure.ended")
        await queue.submit_many([("greet", number) for number in range(100)])
        alone, _ = await pages_read(db)
    assert beside <= 2 * alone, f"{beside} pages beside a crowd, {alone} alone"


async def test_a_claim_reads_no_more_beside_any_number_of_priorities(empty_postgres, postgres_admin, postgres_url, db):
    pages = []
    for priorities in (100, 10_000):
        empty_postgres()
        async with connect(postgres_url) as queue:
            await queue.submit_many([("greet", number, {"priority": -number}) for number in range(priorities)])
        postgres_admin.execute("VACUUM tenure.tasks")
        read, text = await pages_read(db, count=50)
        assert "rows=50" in text
        pages.append(read)
    few, many = pages
    assert many <= 2 * few, f"{many} pages beside {priorities} priorities, {few} beside a few"


async def test_a_plan_that_was_made_on_an_empty_store_serves_a_full_one(postgres_url, postgres_admin):
    """A connection keeps its plans; a table can grow a thousandfold before the next one is made."""
    postgres_admin.execute("VACUUM ANALYZE tenure.tasks, tenure.ended")
    async with connect(postgres_url) as queue:
        for number in range(10):
            await queue.submit("greet", number)
            (held,) = await claim(queue.store)
            await complete(queue.store, held)
        fill(postgres_admin, ended=20_000, scheduled=20_000, stuck=0)
        await queue.submit("greet", "last")
        (before,) = await _scans(postgres_admin)
        assert len((await queue.store.claim(want(100))).tasks) == 1
        (after,) = await _scans(postgres_admin)
    assert after == before, "the claim has read the whole table"


async def _scans(admin):
    """How often the tables of tasks were read from end to end."""
    admin.execute("SELECT pg_stat_force_next_flush()")
    return admin.execute(
        "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = 'tenure' AND relname IN ('tasks', 'ended')"
    ).fetchone()


async def test_the_settings_do_not_reach_the_connections_of_handlers(postgres_url):
    """What is good for a queue's own statements would be bad for a handler's."""
    async with connect(postgres_url) as queue:
        transaction = await queue.store.begin()
        assert await transaction.connection.fetchval("SHOW enable_seqscan") == "on"
        await transaction.rollback()
        assert isinstance(transaction.connection, asyncpg.Connection)


async def test_counting_costs_the_same_however_many_tasks_there_are(postgres_url, postgres_admin, monkeypatch):
    monkeypatch.setattr("tenure.stores.postgres.store.ADD_UP_EVERY", 10)
    async with connect(postgres_url) as queue:
        for number in range(50):
            await queue.submit("greet", number)
        assert (await queue.counts())["pending"] == 50
        (changes,) = postgres_admin.execute("SELECT count(*) FROM tenure.count_changes").fetchone()
        assert changes < 10
        await queue.store.prune({}, await queue.now() - timedelta(days=1), 10)
        assert postgres_admin.execute("SELECT count(*) FROM tenure.count_changes").fetchone() == (0,)
        assert (await queue.counts())["pending"] == 50
