"""A full disk: a clear error, nothing acknowledged is lost, and work goes on when there is room."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from tenure import TaskStatus, Worker, connect

PROGRAM = str(Path(__file__).with_name("programs.py"))


@contextlib.contextmanager
def small_disk(folder, size):
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(folder):
    """Whether this user may put a small disk of its own into a folder; only the administrator may."""
    if os.geteuid() != 0:
        return False
    try:
        with small_disk(folder, "1m"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        folder.rmdir()


async def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(tmp_path):
    if can_mount(tmp_path / "try"):
        with small_disk(tmp_path / "disk", "24m"):
            await fill_and_go_on(tmp_path / "disk")
    else:
        await hit_a_limit_and_go_on(tmp_path)


async def fill_and_go_on(folder):
    ballast = folder / "ballast"
    path = folder / "jobs.db"
    ballast.write_bytes(bytes(18_000_000))
    process = subprocess.Popen(
        [sys.executable, PROGRAM, "fill the disk", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    acknowledged = []
    for line in process.stdout:
        if line.startswith(("full", "error")):
            break
        acknowledged.append(line.strip())
    assert line.startswith("full: No room left on the disk"), line
    assert acknowledged
    ballast.unlink()
    process.stdin.write("go on\n")
    process.stdin.close()
    acknowledged.append(process.stdout.readline().strip())
    process.wait(60)
    process.stdout.close()
    await everything_is_there(path, acknowledged)


async def hit_a_limit_and_go_on(folder):
    path = folder / "jobs.db"
    async with connect(f"sqlite:///{path}"):
        pass
    answer = subprocess.run(
        [sys.executable, PROGRAM, "fill a small limit", str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = answer.stdout.split("\n")[:-1]
    acknowledged = [line for line in lines if not line.startswith("error")]
    assert len(acknowledged) == len(lines) - 1
    await everything_is_there(path, acknowledged)


async def test_a_limit_on_the_size_of_files_is_a_store_that_is_away_for_the_moment(tmp_path):
    await hit_a_limit_and_go_on(tmp_path)


async def everything_is_there(path, acknowledged):
    async with connect(f"sqlite:///{path}") as queue:
        assert None not in await queue.store.get(acknowledged)
        counts = await queue.counts()
        assert counts[TaskStatus.Pending] >= len(acknowledged)
        worker = Worker(queue)

        @worker.task("job")
        async def job(input): ...

        assert await worker.run(until_idle=True) == counts[TaskStatus.Pending]
        (damage,) = await queue.store._reader.call(lambda db: db.execute("PRAGMA integrity_check").fetchone())
        assert damage == "ok"
