"""Setting up a queue in a bucket, and refusing a server that would lose tasks."""

import itertools
import json

import pytest
from proxies import without

import tenure
from tenure.errors import InvalidURL, StoreTooNew, StoreUnavailable, StoreUnusable
from tenure.stores.s3 import S3Store
from tenure.testing.ports import free_port

numbers = itertools.count()


@pytest.fixture(params=["seaweedfs", "ministack"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def place():
    return f"setup-{next(numbers)}"


async def opened(url):
    store = S3Store(url)
    try:
        await store.open()
    finally:
        await store.close()
    return store


async def test_nothing_is_made_unasked(server, place):
    with pytest.raises(StoreUnusable, match=f"no bucket '{place}'.*create=true"):
        await opened(f"s3://{place}/jobs?endpoint={server.endpoint}")
    await opened(f"s3://{place}/jobs?endpoint={server.endpoint}&create=true")
    with pytest.raises(StoreUnusable, match=r"mail holds no queue.*create=true"):
        await opened(f"s3://{place}/mail?endpoint={server.endpoint}")
    await opened(f"s3://{place}/jobs?endpoint={server.endpoint}")


@pytest.mark.parametrize("prefix", ["", "/a/b-c_d.e"])
async def test_a_queue_works_with_any_prefix(server, place, prefix):
    async with tenure.connect(f"s3://{place}{prefix}?endpoint={server.endpoint}&create=true") as queue:
        task = await queue.submit("greet", {"name": "Ada"})
        assert (await queue.get(task.id)).input == {"name": "Ada"}


async def test_the_number_of_shards_is_decided_once_for_everyone(server, place):
    url = f"s3://{place}/jobs?endpoint={server.endpoint}"
    first = await opened(f"{url}&create=true&shards=16")
    assert list(first._shelves.shards) == list((await opened(url))._shelves.shards) == list(range(16))
    with pytest.raises(StoreUnusable, match="16 shards, not 4"):
        await opened(f"{url}&shards=4")


async def test_the_server_is_tried_once_for_a_bucket(server, place):
    url = f"s3://{place}/jobs?endpoint={server.endpoint}"
    await opened(f"{url}&create=true")
    again = await opened(url)
    assert dict(again.client.counts) == {"GET": 1}


IGNORED = [
    ("PUT", "If-None-Match", "If-None-Match: [*] was ignored"),
    ("PUT", "If-Match", "If-Match was ignored"),
    ("DELETE", "If-Match", "If-Match on DELETE was ignored"),
]


@pytest.mark.parametrize(("method", "header", "failed"), IGNORED)
async def test_a_server_that_ignores_a_condition_is_refused_by_name(server, place, method, header, failed):
    async with without(server, method, header) as endpoint:
        with pytest.raises(StoreUnusable, match=failed):
            await opened(f"s3://{place}/jobs?endpoint={endpoint}&create=true")


async def test_a_bucket_that_moved_to_such_a_server_is_refused_too(server, place):
    await opened(f"s3://{place}/jobs?endpoint={server.endpoint}&create=true")
    async with without(server, "PUT", "If-Match") as endpoint:
        with pytest.raises(StoreUnusable, match="If-Match was ignored"):
            await opened(f"s3://{place}/jobs?endpoint={endpoint}")


async def test_a_proxy_that_keeps_all_conditions_is_fine(server, place):
    async with without(server, "PUT", "nothing") as endpoint:
        await opened(f"s3://{place}/jobs?endpoint={endpoint}&create=true")


async def test_a_newer_layout_and_a_damaged_one_are_told(server, place):
    url = f"s3://{place}/jobs?endpoint={server.endpoint}"
    store = await opened(f"{url}&create=true")
    found = await store.bucket.read("tenure.json")
    layout = json.loads(found.body) | {"format": 99}
    etag = await store.bucket.replace("tenure.json", json.dumps(layout).encode(), "x", found.etag)
    with pytest.raises(StoreTooNew, match="format 99"):
        await opened(url)
    await store.bucket.replace("tenure.json", b'{"format": "?"}', "x", etag)
    with pytest.raises(StoreUnusable, match=r"tenure.json cannot be read"):
        await opened(url)
    await store.close()


async def test_wrong_credentials_are_told(seaweedfs, place, monkeypatch):
    await opened(f"s3://{place}/jobs?endpoint={seaweedfs.endpoint}&create=true")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreUnusable, match=r"credentials may not read|SignatureDoesNotMatch"):
        await opened(f"s3://{place}/jobs?endpoint={seaweedfs.endpoint}")


async def test_a_server_that_is_away_is_told(aws_credentials):
    store = S3Store(f"s3://bucket/jobs?endpoint=http://127.0.0.1:{free_port()}")
    store.client.pauses = (0.0, 0.0)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await store.open()
    await store.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://", "names no bucket"),
        ("s3://B/x", "names no bucket"),
        ("s3://bucket/a//b", "prefix 'a//b'"),
        ("s3://bucket/a b", "prefix 'a b'"),
        ("s3://bucket/a?shards=0", "shards='0'"),
        ("s3://bucket/a?shards=many", "shards='many'"),
        ("s3://bucket/a?create=maybe", "create='maybe'"),
        ("s3://bucket/a?colour=blue", "Unknown option 'colour'.*endpoint"),
    ],
)
def test_a_bad_address_says_what_to_write(url, says):
    with pytest.raises(InvalidURL, match=says):
        S3Store(url)
