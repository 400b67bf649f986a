"""Which stores make up a queue, in which order: said in the address, noted in each of them, and checked."""

import sqlite3

import pytest

import tenure.sync
from tenure import Tenure, connect
from tenure.errors import InvalidURL, StoreUnusable
from tenure.settings import find_settings
from tenure.stores import separated
from tenure.stores.options import without_password


@pytest.mark.parametrize(
    ("address", "urls"),
    [
        ("sqlite:///a.db", ["sqlite:///a.db"]),
        ("sqlite:///a.db sqlite:///b.db", ["sqlite:///a.db", "sqlite:///b.db"]),
        (" sqlite:///a.db\n  sqlite:///b.db\t", ["sqlite:///a.db", "sqlite:///b.db"]),
        (
            "etcd://h1:2379,h2:2379,h3:2379/a etcd://h4:2379,h5:2379/b",
            ["etcd://h1:2379,h2:2379,h3:2379/a", "etcd://h4:2379,h5:2379/b"],
        ),
        ("sqlite:///my jobs.db sqlite:///b.db", ["sqlite:///my jobs.db", "sqlite:///b.db"]),
        (["sqlite:///a.db", "sqlite:///b.db"], ["sqlite:///a.db", "sqlite:///b.db"]),
    ],
)
def test_blanks_stand_between_addresses_and_commas_belong_to_them(address, urls):
    assert separated(address) == urls


def test_no_password_of_any_shard_is_shown():
    shown = without_password("postgresql://ada:one@a/x?sslpassword=two postgresql://bob:three@b/y")
    assert shown == "postgresql://ada:***@a/x?sslpassword=*** postgresql://bob:***@b/y"


async def test_a_list_and_a_text_are_the_same_queue(files):
    async with connect(files) as queue:
        tasks = await queue.submit_many([("greet", number) for number in range(40)])
    async with connect(" ".join(files)) as queue:
        assert {task.id for task in (await queue.list()).tasks} == {task.id for task in tasks}
        assert len(queue.store.parts()) == 4
    with tenure.sync.connect(files) as queue:
        assert sum(queue.counts().values()) == 40
    async with await Tenure(files).queue() as queue:
        assert sum((await queue.counts()).values()) == 40


async def test_the_environment_may_name_several(files, monkeypatch):
    monkeypatch.setenv("TENURE_URL", " ".join(files[:2]))
    async with connect() as queue:
        assert len(queue.store.parts()) == 2


def test_a_settings_file_may_name_several_each_from_its_own_folder(tmp_path):
    (tmp_path / "tenure.toml").write_text('url = ["sqlite:///a.db", "sqlite:////var/b.db"]')
    url = find_settings(folder=tmp_path, environment={})["url"].value
    assert separated(url) == [f"sqlite:///{tmp_path}/a.db", "sqlite:////var/b.db"]


async def test_a_store_that_stands_twice_is_refused(files):
    with pytest.raises(InvalidURL, match="twice"):
        await connect([files[0], files[1], files[0]])


async def test_another_order_is_refused_with_advice(files):
    async with connect(files[:3]) as queue:
        await queue.submit("greet")
    with pytest.raises(StoreUnusable, match="order in which the queue was set up"):
        await connect([files[1], files[0], files[2]])


@pytest.mark.parametrize("count", [2, 4])
async def test_another_number_is_refused_with_advice(files, count):
    async with connect(files[:3]) as queue:
        await queue.submit("greet")
    with pytest.raises(StoreUnusable, match=rf"one of 3 shards, and this address names {count}.*tenure copy"):
        await connect(files[:count])


async def test_a_queue_of_its_own_does_not_become_a_shard(files):
    async with connect(files[1]) as queue:
        await queue.submit("greet")
    with pytest.raises(StoreUnusable, match=r"not sharded\. Spread them with: tenure copy"):
        await connect(files[:2])


async def test_a_shard_that_is_empty_all_of_a_sudden_is_refused(files, tmp_path):
    async with connect(files[:2]) as queue:
        await queue.submit_many([("greet", number) for number in range(20)])
    for name in ("shard-1.db", "shard-1.db-wal", "shard-1.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(StoreUnusable, match="empty, but the other shards say that it has been in use"):
        await connect(files[:2])


async def test_a_set_up_that_was_interrupted_is_finished(files, tmp_path):
    async with connect(files[:2]):
        pass
    with sqlite3.connect(tmp_path / "shard-0.db") as database:
        database.execute("DELETE FROM tenure_notes")
    database.close()
    async with connect(files[:2]) as queue:
        assert (await queue.submit("greet")).created
