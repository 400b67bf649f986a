"""Who may read what is stored: the owner, the group as far as the umask says, and never everyone."""

import os
import stat

import pytest

from tenure import connect


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def modes(folder):
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@pytest.mark.parametrize(("mask", "mode"), [(0o000, 0o660), (0o022, 0o640), (0o077, 0o600), (0o002, 0o660)])
async def test_a_new_file_and_those_beside_it_are_not_for_everyone(tmp_path, umask, mask, mode):
    umask(mask)
    async with connect(f"sqlite:///{tmp_path}/jobs.db") as queue:
        await queue.submit("job", "private")
        assert modes(tmp_path) == dict.fromkeys(["jobs.db", "jobs.db-wal", "jobs.db-shm"], mode)


async def test_a_file_that_exists_keeps_its_permissions(tmp_path, umask):
    path = tmp_path / "jobs.db"
    path.touch(0o644)
    path.chmod(0o644)
    async with connect(f"sqlite:///{path}") as queue:
        await queue.submit("job")
    assert modes(tmp_path)["jobs.db"] == 0o644
