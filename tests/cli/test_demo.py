"""The demo accounts for every task, with a process killed in its middle."""

import pytest

from tenure.cli.demo.account import take_account
from tenure.queue import connect

from .test_terminal import shown


def test_the_account_of_the_demo_adds_up(terminal):
    account = terminal.process("demo", "--tasks", "300", "--json", timeout=120).json
    assert account["adds_up"] is True
    assert all(check["holds"] for check in account["checks"])
    total = account["total"]
    assert total["submitted"] == total["completed"] + total["failed"] + total["expired"] + total["cancelled"] == 310
    assert total["lapsed"] >= 1
    assert len(account["types"]) == 7


def test_the_demo_explains_itself_at_a_terminal(terminal):
    screen = terminal.screen("demo", "--tasks", "300", timeout=120)
    picture = shown(screen)
    assert screen.exitstatus == 0
    for words in ("A fresh queue, in one SQLite file", "killed with SIGKILL", "lapsed", "The account adds up"):
        assert words in picture
    assert "━" in picture


@pytest.fixture
async def played(tmp_path):
    """What a tiny demo would leave behind: one task, promised, run and completed."""
    async with connect(f"sqlite:///{tmp_path / 'demo.db'}") as queue:
        from tenure import Worker

        task = await queue.submit("send_email", {"to": "ada"})
        worker = Worker(queue)

        @worker.task("send_email")
        async def send_email(input):
            return None

        await worker.run(until_idle=True)
        ledger = f'{{"id": "{task.id}", "type": "send_email", "fate": "completed", "created": true}}\n'
        (tmp_path / "ledger.jsonl").write_text(ledger)
        (tmp_path / "runs-1.txt").write_text(f"started {task.id} 1\nfinished {task.id} 1\n")
        yield queue, tmp_path, task


async def broken_checks(played):
    queue, folder, _ = played
    account = await take_account(queue, folder, [])
    return {check.text.partition(":")[0] for check in account.checks if not check.holds}


async def test_the_account_notices_a_lost_task(played):
    _, folder, _ = played
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.write('{"id": "lost", "type": "send_email", "fate": "completed", "created": true}\n')
    assert {"nothing lost", "as expected"} <= await broken_checks(played)


async def test_the_account_notices_a_task_that_ran_twice(played):
    _, folder, task = played
    (folder / "runs-2.txt").write_text(f"started {task.id} 1\nfinished {task.id} 1\n")
    assert {"one owner at a time", "finished again only by need"} <= await broken_checks(played)


async def test_the_account_notices_an_unfinished_task(played):
    queue, _, _ = played
    await queue.submit("send_email", {"to": "bob"})
    assert {"all ended", "nothing lost"} <= await broken_checks(played)
