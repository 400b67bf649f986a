"""Addresses of stores: each mistake is answered with what to write instead."""

import sys
from pathlib import Path

import pytest

from tenure import connect
from tenure.errors import InvalidURL, MissingExtra
from tenure.queue import DEFAULT_URL
from tenure.stores import EXAMPLES, open_store, read_options, sqlite_path
from tenure.stores.memory import MemoryStore
from tenure.stores.sqlite import SqliteStore


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of one's own to work in, and no address in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_URL", raising=False)
    return tmp_path


@pytest.mark.parametrize("url", ["mysql://root@host/db", "redis://", "jobs.db", "", "http://example.com", "SQLITE:/x"])
def test_an_unknown_kind_of_store_is_answered_with_the_known_ones(url):
    with pytest.raises(InvalidURL) as refusal:
        open_store(url)
    words = str(refusal.value)
    assert words.startswith(f"Cannot connect to {url!r}.")
    assert f"Known: {', '.join(EXAMPLES)}." in words
    assert words.endswith("Example: sqlite:///jobs.db")


@pytest.mark.parametrize("url", [5, Path("jobs.db"), ["memory://", 5], []])
def test_an_address_is_a_string_or_a_list_of_them(url):
    with pytest.raises(InvalidURL, match="Cannot connect to"):
        open_store(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://jobs.db", "sqlite://localhost/jobs.db"])
def test_an_address_without_a_file_is_answered_with_both_ways_to_write_it(url):
    with pytest.raises(InvalidURL) as refusal:
        open_store(url)
    assert str(refusal.value) == (
        f"{url!r} names no file. Write sqlite:///jobs.db (relative) or sqlite:////var/lib/jobs.db (absolute)."
    )


def test_a_folder_is_no_file(here):
    (here / "data").mkdir()
    with pytest.raises(InvalidURL) as refusal:
        open_store("sqlite:///data")
    assert str(refusal.value) == "'sqlite:///data' is a folder. Name a file in it, like sqlite:///data/jobs.db."


@pytest.mark.parametrize(
    "url", ["sqlite:///:memory:", "sqlite://:memory:", "sqlite:////:memory:", "sqlite:///a/:memory:"]
)
def test_sqlites_word_for_memory_is_no_file(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidURL, match="write memory://"):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["memory://?speed=9", "sqlite:///jobs.db?speed=9", "sqlite:///jobs.db?speed"])
def test_an_unknown_option_is_refused(url, here):
    with pytest.raises(InvalidURL) as refusal:
        open_store(url)
    words = "Unknown option 'speed' in the address of the store. This kind of store has none."
    assert str(refusal.value) == words
    assert not list(here.iterdir())


def test_an_unknown_option_is_answered_with_the_known_ones():
    assert read_options("s3://bucket?region=eu&create=", ("region", "create")) == {"region": "eu", "create": ""}
    with pytest.raises(InvalidURL, match=r"Unknown option 'regoin' .* Known: region, create\."):
        read_options("s3://bucket?regoin=eu", ("region", "create"))


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("postgresql://user@host/db", "postgres"),
        ("postgres://user@host/db", "postgres"),
        ("s3://bucket/prefix", "s3"),
        ("dynamodb://table", "dynamodb"),
        ("etcd://host", "etcd"),
    ],
)
def test_a_store_that_needs_more_names_the_line_to_install_it(url, extra, monkeypatch):
    # None in this table is Python's own way to say that a module cannot be imported.
    monkeypatch.setitem(sys.modules, f"tenure.stores.{extra}", None)
    with pytest.raises(MissingExtra) as missing:
        open_store(url)
    assert missing.value.extra == extra
    assert f"pip install 'tenure-queue[{extra}]'" in str(missing.value)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:///data/jobs.db", "data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///my jobs#2 50%.db", "my jobs#2 50%.db"),
        ("sqlite:///naïve🐢.db", "naïve🐢.db"),
    ],
)
def test_three_slashes_are_relative_and_four_absolute(url, path):
    assert sqlite_path(url) == Path(path)


async def test_each_kind_opens(here):
    memory, file = open_store("memory://"), open_store("SQLite:///jobs.db")
    assert isinstance(memory, MemoryStore)
    assert isinstance(file, SqliteStore)
    await memory.close()
    await file.close()
    assert (here / "jobs.db").is_file()


async def test_the_argument_counts_before_the_environment(here, monkeypatch):
    monkeypatch.setenv("TENURE_URL", "sqlite:///environment.db")
    async with connect("memory://") as queue:
        assert queue.url == "memory://"
    assert not list(here.iterdir())


@pytest.mark.parametrize("argument", [None, ""])
async def test_the_environment_counts_before_the_default(here, monkeypatch, argument):
    monkeypatch.setenv("TENURE_URL", "sqlite:///environment.db")
    async with connect(argument) as queue:
        assert queue.url == "sqlite:///environment.db"
    assert (here / "environment.db").is_file()


@pytest.mark.parametrize("environment", [None, ""])
async def test_without_a_word_it_is_a_file_of_this_folder(here, monkeypatch, environment):
    if environment is not None:
        monkeypatch.setenv("TENURE_URL", environment)
    queue = await connect()
    await queue.close()
    assert queue.url == DEFAULT_URL == "sqlite:///tenure.db"
    assert (here / "tenure.db").is_file()


async def test_a_wrong_address_is_said_when_connecting():
    with pytest.raises(InvalidURL):
        await connect("nowhere://")
    with pytest.raises(InvalidURL):
        async with connect("nowhere://"):
            pass


def test_an_address_that_is_refused_does_not_show_its_password():
    with pytest.raises(InvalidURL) as refused:
        open_store("mysql://ada:secret@host/jobs?password=secret")
    assert "mysql://ada:***@host" in str(refused.value)
    assert "secret" not in str(refused.value)
