"""A file that was deleted or replaced under a running program: nothing is acknowledged that nobody will find."""

import asyncio
import shutil

import pytest

from tenure import StoreUnusable, Worker, connect


def delete(path):
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace(path):
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


@pytest.mark.parametrize("harm", [delete, replace])
async def test_a_submit_into_a_file_that_is_gone_is_refused(queue, path, harm):
    await queue.submit("job", 1)
    harm(path)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=r"was deleted or replaced .* Restart every program"):
            await queue.submit("job", 2)
    with pytest.raises(StoreUnusable):
        await queue.submit_many([("job", 3)])


async def test_a_worker_whose_file_is_gone_ends_with_the_reason(queue, path):
    worker = Worker(queue, poll=0.01)

    @worker.task("job")
    async def job(input):
        delete(path)

    await queue.submit("job", 1)
    with pytest.raises(StoreUnusable, match="was deleted or replaced"):
        async with asyncio.timeout(60):
            await worker.run()


async def test_a_process_that_goes_to_another_folder_keeps_its_file(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with connect("sqlite:///jobs.db") as queue:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert (await queue.submit("job", 1)).created
