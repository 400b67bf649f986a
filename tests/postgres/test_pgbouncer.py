"""Through a real PgBouncer, Debian's, that hands the server's connections round between transactions."""

import asyncio
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

import debian
from tenure import Context, StoreError, TaskStatus, Worker, connect
from tenure.testing import check
from tenure.testing.conformance.steps import everything
from tenure.testing.ports import free_port
from tenure.testing.postgres import _another_user

SETTINGS = """
[databases]
postgres = host=127.0.0.1 port={server} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
unix_socket_dir =
"""


@pytest.fixture
def pooled(postgres_url, postgres_server, monkeypatch):
    """The address of the store, by way of the pooler."""
    program = debian.program("pgbouncer")
    monkeypatch.setenv("LD_LIBRARY_PATH", debian.environment()["LD_LIBRARY_PATH"])
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="tenure-pgbouncer-"))
    file = folder / "pgbouncer.ini"
    file.write_text(SETTINGS.format(server=postgres_server.port, port=port))
    how, prefix = _another_user(program, folder)
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with subprocess.Popen([*prefix, program, "-q", file], **how) as process:
        try:
            _wait_for(url)
            yield url
        finally:
            process.kill()
    shutil.rmtree(folder)


def _wait_for(url):
    deadline = time.monotonic() + 20
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return


async def test_everything_works_by_polling(pooled):
    async with connect(f"{pooled}?poll_only=true") as queue:
        executions = []
        worker = Worker(queue, concurrency=10, poll=0.05, sweep_interval=0.05)

        @worker.task("greet")
        async def greet(input: int, context: Context) -> int:
            executions.append((context.task.id, context.fence))
            if context.attempt == 1 and input % 5 == 0:
                raise RuntimeError
            return input

        working = asyncio.ensure_future(worker.run())
        tasks = await queue.submit_many([("greet", number) for number in range(50)])
        tasks += await asyncio.gather(
            *(queue.submit("greet", n, idempotency_key=f"{n}", ordering_key=f"{n % 3}") for n in range(30))
        )
        async with asyncio.timeout(60):
            while (await queue.counts())[TaskStatus.Completed] < 80:
                await asyncio.sleep(0.02)
        worker.stop()
        await working
        stored = await everything(queue.store)
        assert check(stored, [task.id for task in tasks], executions=executions, all_ended=True) == []


async def test_a_handlers_transaction_works_too(pooled, ledger):
    async with connect(f"{pooled}?poll_only=true") as queue:
        worker = Worker(queue, poll=0.05)

        @worker.task("pay")
        async def pay(input: str, context: Context) -> None:
            async with context.transaction() as connection:
                await connection.execute("INSERT INTO ledger VALUES ($1, 1)", input)

        await queue.submit("pay", "ada")
        await worker.run(until_idle=True)
    assert ledger() == [("ada", 1)]


async def test_without_the_switch_it_says_what_to_do(pooled):
    with pytest.raises(StoreError, match="poll_only=true"):
        await connect(pooled)
