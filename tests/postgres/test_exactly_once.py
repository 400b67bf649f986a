"""`context.transaction()`: what a handler writes and the end of its task are one step."""

import asyncio
import json

import pytest
from asyncpg import InterfaceError
from asyncpg.transaction import Transaction
from increments import prove

from tenure import (
    Context,
    InvalidInput,
    PermanentError,
    RescheduleError,
    RetryPolicy,
    TaskStatus,
    Worker,
    connect,
    lifecycle,
)
from tenure.stores.base import Change
from tenure.stores.postgres import transaction
from tenure.testing.conformance.steps import claim_one
from tenure.worker.attempt import Stop

INSERT = "INSERT INTO ledger VALUES ($1, 1)"
AT_ONCE = RetryPolicy(base=0, max_delay=0, jitter=0, max_attempts=3)
PATIENCE = 10


async def run(queue, handler, **settings):
    """Run one task of the handler to its end."""
    worker = Worker(queue, poll=0.05, retry=AT_ONCE, **settings)
    worker.task("pay")(handler)
    task = await queue.submit("pay", "ada")
    await worker.run(until_idle=True)
    return await queue.get(task.id)


async def test_the_writes_and_the_completion_are_there_together(queue, ledger):
    async def pay(input: str, context: Context) -> str:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
        assert ledger() == [], "nothing is committed before the handler returns"
        return "paid"

    task = await run(queue, pay)
    assert (task.status, task.output, ledger()) == (TaskStatus.Completed, "paid", [("ada", 1)])


async def test_a_failure_after_the_block_undoes_its_writes(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
        if context.attempt == 1:
            raise RuntimeError

    task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 1, [("ada", 1)])


async def test_a_failure_in_the_block_undoes_its_writes(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            raise PermanentError

    task = await run(queue, pay)
    assert (task.status, ledger()) == (TaskStatus.Failed, [])


async def test_a_failure_that_the_handler_takes_care_of_undoes_the_writes_and_completes(queue, ledger):
    async def pay(input: str, context: Context) -> str:
        try:
            async with context.transaction() as connection:
                await connection.execute(INSERT, input)
                raise RuntimeError
        except RuntimeError:
            return "not paid"

    task = await run(queue, pay)
    assert (task.status, task.output, ledger()) == (TaskStatus.Completed, "not paid", [])


async def test_a_statement_that_fails_is_a_failed_attempt(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            if context.attempt == 1:
                await connection.execute("SELECT 1 / 0")

    task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 1, [("ada", 1)])
    assert "division by zero" in task.last_error


async def test_a_failed_statement_that_the_handler_hides_cannot_commit(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            if context.attempt == 1:
                with pytest.raises(Exception, match="division by zero"):
                    await connection.execute("SELECT 1 / 0")

    task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 1, [("ada", 1)])


async def test_a_constraint_that_is_checked_at_the_commit_is_a_failed_attempt(queue, ledger, postgres_admin):
    postgres_admin.execute("ALTER TABLE ledger ADD UNIQUE (who) DEFERRABLE INITIALLY DEFERRED")

    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            await connection.execute(INSERT, input)

    task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Failed, 3, [])
    assert "ledger_who_key" in task.last_error


async def test_a_task_that_is_rescheduled_has_written_nothing(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
        if context.task.reschedules == 0:
            raise RescheduleError(delay_seconds=0)

    task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 0, [("ada", 1)])


async def test_a_follower_is_submitted_exactly_when_the_task_completes(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await context.queue.submit("thank", input, connection=connection)
        if context.attempt == 1:
            raise RuntimeError

    await run(queue, pay)
    assert len((await queue.list(type="thank")).tasks) == 1


async def test_a_zombie_is_undone_by_the_fence(queue, ledger):
    """Another worker takes the task while the handler sleeps on, and both return."""

    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, f"fence {context.fence}")
        if context.fence == 1:
            stored = await queue.get(context.task.id)
            given_back = lifecycle.release(stored, stored.fence, await queue.now(), "taken away")
            assert await queue.store.swap([Change(stored, given_back)]) == [True]
            taken = await claim_one(queue.store, by="another", types=["pay"])
            assert taken.fence == 2

    worker = Worker(queue, poll=0.05, worker_id="zombie")
    worker.task("pay")(pay)
    task = await queue.submit("pay", "ada")
    await worker.run(max_tasks=1)
    stored = await queue.get(task.id)
    assert (stored.status, stored.worker_id, stored.fence) == (TaskStatus.Running, "another", 2)
    assert ledger() == []


async def test_an_answer_to_the_commit_that_is_lost_is_looked_up(queue, ledger, monkeypatch):
    """The connection breaks right after the commit: the task has ended, once, and its writes are there, once."""
    commit = Transaction.commit
    lost = []

    async def commit_and_lose_the_answer(self):
        await commit(self)
        if not lost:
            lost.append(self)
            msg = "connection reset"
            raise ConnectionResetError(msg)

    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            monkeypatch.setattr(Transaction, "commit", commit_and_lose_the_answer)

    task = await run(queue, pay)
    assert lost
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 0, [("ada", 1)])


async def test_a_commit_that_never_came_is_a_failed_attempt(queue, ledger, postgres_admin):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            if context.attempt == 1:
                postgres_admin.execute("SELECT pg_terminate_backend(%s)", [connection.get_server_pid()])

    task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 1, [("ada", 1)])


@pytest.fixture
def during_rollback(monkeypatch):
    """Lets something happen while the first rollback is on its way."""

    def patch(what):
        rollback, seen = Transaction.rollback, []

        async def slow(self):
            if not seen:
                seen.append(self)
                await what()
            await rollback(self)

        monkeypatch.setattr(Transaction, "rollback", slow)

    return patch


async def failed_in_one_attempt(queue, ledger, attempts):
    """Run a handler that fails after its block, and see that the attempt ends as if the rollback had taken no time."""

    async def pay(input: str, context: Context) -> None:
        attempts.append(context._holder)
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
        if context.attempt == 1:
            msg = "the card is refused"
            raise ValueError(msg)

    async with asyncio.timeout(PATIENCE):
        task = await run(queue, pay)
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 1, [("ada", 1)])
    assert "the card is refused" in task.last_error


@pytest.mark.parametrize("why", [Stop.Timeout, Stop.Cancel, Stop.Shutdown, Stop.Lost])
async def test_nothing_interrupts_the_rollback_of_a_handler_that_has_failed(queue, ledger, during_rollback, why):
    attempts = []

    async def interrupted():
        attempts[0].interrupt(why)
        await asyncio.sleep(0)

    during_rollback(interrupted)
    await failed_in_one_attempt(queue, ledger, attempts)


async def test_an_attempt_ends_also_when_its_rollback_is_cancelled(queue, ledger, during_rollback):
    async def cancelled():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    during_rollback(cancelled)
    await failed_in_one_attempt(queue, ledger, [])


async def test_a_handler_that_is_stopped_as_it_returns_completes_with_its_writes_or_not_at_all(queue, ledger):
    async def pay(input: str, context: Context) -> str:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
        if context.fence == 1:
            # As when the handler itself stops its worker: the next thing that waits is the commit.
            context._holder.interrupt(Stop.Shutdown)
        return f"paid under fence {context.fence}"

    async with asyncio.timeout(PATIENCE):
        task = await run(queue, pay)
    assert (task.status, task.output, task.attempts) == (TaskStatus.Completed, "paid under fence 2", 0)
    assert ledger() == [("ada", 1)]


async def test_a_rollback_without_an_answer_ends_with_its_connection(
    postgres_url, ledger, during_rollback, monkeypatch
):
    monkeypatch.setattr(transaction, "ROLLBACK_PATIENCE", 0.05)
    during_rollback(asyncio.Event().wait)
    async with connect(f"{postgres_url}?transactions=1") as queue:
        await failed_in_one_attempt(queue, ledger, [])


@pytest.mark.parametrize("moment", ["start", "rollback"])
async def test_a_transaction_that_is_cancelled_leaves_its_place_to_the_next(postgres_url, monkeypatch, moment):
    async with connect(f"{postgres_url}?transactions=1") as queue:
        reached = asyncio.Event()

        async def without_an_answer(self):
            reached.set()
            await asyncio.Event().wait()

        async def begin_and_undo():
            await (await queue.store.begin()).rollback()

        with monkeypatch.context() as patch:
            patch.setattr(Transaction, moment, without_an_answer)
            call = asyncio.create_task(begin_and_undo())
            await reached.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError) as kept:
                await call
        async with asyncio.timeout(PATIENCE):
            await begin_and_undo()
        assert kept.tb is not None, "what holds on to the first call holds none of its place"


async def test_a_lease_is_renewed_under_a_transaction_whatever_the_roles_isolation(queue, ledger, postgres_admin):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute(INSERT, input)
            await context.extend_lease(60)

    postgres_admin.execute("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
    try:
        task = await run(queue, pay)
    finally:
        postgres_admin.execute("ALTER ROLE postgres RESET default_transaction_isolation")
    assert (task.status, task.attempts, ledger()) == (TaskStatus.Completed, 0, [("ada", 1)])


async def test_a_handler_that_raises_the_isolation_is_told_why_its_task_cannot_end(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await connection.execute(INSERT, input)
            await context.extend_lease(60)

    task = await run(queue, pay)
    assert (task.status, ledger()) == (TaskStatus.Failed, [])
    assert "Leave context.transaction() at READ COMMITTED" in task.last_error


async def in_turn(postgres_url, first, second):
    """Run two handlers, one after the other, on one and the same place for a transaction."""
    async with connect(f"{postgres_url}?transactions=1") as queue:
        worker = Worker(queue, concurrency=1, poll=0.05, retry=None)
        for handler in (first, second):

            @worker.task(handler.__name__)
            async def write(input: None, context: Context, handler=handler) -> object:
                async with context.transaction() as connection:
                    return await handler(connection)

            task = await queue.submit(handler.__name__, None)
            await worker.run(until_idle=True)
            task = await queue.get(task.id)
            assert task.status is TaskStatus.Completed, task.last_error
        return task.output


@pytest.mark.parametrize(
    ("change", "look", "clean"),
    [
        ("SET statement_timeout = '777ms'", "SELECT current_setting('statement_timeout')", "0"),
        ("CREATE TEMP TABLE kept (a int)", "SELECT to_regclass('pg_temp.kept')::text", None),
        (
            "SELECT pg_advisory_lock(1)",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            0,
        ),
    ],
)
async def test_what_a_handler_sets_on_its_connection_is_not_there_for_the_next(postgres_url, change, look, clean):
    async def first(connection):
        await connection.execute(change)

    async def second(connection):
        return await connection.fetchval(look)

    assert await in_turn(postgres_url, first, second) == clean


async def test_a_codec_that_a_handler_sets_is_not_there_for_the_next(postgres_url):
    async def first(connection):
        await connection.set_type_codec("json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        assert await connection.fetchval("SELECT '[1]'::json") == [1]

    async def second(connection):
        return await connection.fetchval("SELECT '[1]'::json")

    assert await in_turn(postgres_url, first, second) == "[1]"


async def test_a_connection_that_a_handler_keeps_does_not_write_in_the_transaction_of_the_next(postgres_url, ledger):
    kept = []

    async def first(connection):
        kept.append(connection)

    async def second(connection):
        with pytest.raises(InterfaceError, match="released"):
            await kept[0].execute(INSERT, "ada")

    await in_turn(postgres_url, first, second)
    assert ledger() == []


async def test_a_handler_that_closes_its_connection_has_failed_and_leaves_its_place(postgres_url):
    async with connect(f"{postgres_url}?transactions=1") as queue:

        async def pay(input: str, context: Context) -> None:
            async with context.transaction() as connection:
                if context.attempt == 1:
                    await connection.close()

        async with asyncio.timeout(PATIENCE):
            task = await run(queue, pay)
    assert (task.status, task.attempts) == (TaskStatus.Completed, 1)


async def test_a_handler_has_one_transaction(queue, ledger):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction():
            pass
        with pytest.raises(InvalidInput, match="A handler has one transaction"):
            async with context.transaction():
                pass

    assert (await run(queue, pay)).status is TaskStatus.Completed


async def test_more_handlers_than_connections_take_turns(postgres_url, ledger):
    async with connect(f"{postgres_url}?transactions=2") as queue:
        worker = Worker(queue, concurrency=10, poll=0.05)

        @worker.task("pay")
        async def pay(input: int, context: Context) -> None:
            async with context.transaction() as connection:
                await connection.execute(INSERT, f"{input:02}")
                await asyncio.sleep(0)

        await queue.submit_many([("pay", number) for number in range(20)])
        await worker.run(until_idle=True)
        assert ledger() == [(f"{number:02}", 1) for number in range(20)]


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_other_stores_say_which_one_has_it(url, tmp_path):
    async def pay(input: str, context: Context) -> None:
        async with context.transaction():
            pass

    async with connect(url.format(tmp_path)) as queue:
        task = await run(queue, pay)
    assert task.status is TaskStatus.Failed
    assert "A PostgreSQL store has that" in task.last_error


def test_increments_under_kills_and_lapsed_leases_are_counted_exactly_once(postgres_url):
    """The short form; `python tests/postgres/increments.py` does 10,000."""
    account = prove(postgres_url, tasks=300, workers=2, kills=4)
    assert account.counter == 300
    assert account.completed == 300
    assert account.kills == 4
    assert account.lapses > 0
