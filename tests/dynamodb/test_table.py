"""Making the table, living in one that holds other things, and templates for those who may not make it."""

import json

import pytest

from tenure.errors import InvalidURL, StoreTooNew, StoreUnusable
from tenure.queue import Queue, connect
from tenure.retry import RetryPolicy
from tenure.stores.dynamodb import DynamoStore
from tenure.stores.dynamodb.address import read_address
from tenure.stores.dynamodb.making import description
from tenure.stores.dynamodb.templates import cloudformation, terraform
from tenure.stores.dynamodb.wire import item_to_wire
from tenure.testing.conformance.steps import brought_to, claim_one, complete, everything
from tenure.worker import Worker
from tenure.worker.profiles import SCHEDULED_JOBS

from .conftest import items, numbers


@pytest.fixture
def table(server):
    """The name and the place of a table that is not there yet."""
    return f"other-{next(numbers)}", server.endpoint


async def test_a_table_is_made_when_asked_for_and_only_then(table):
    name, endpoint = table
    with pytest.raises(StoreUnusable, match="create=true"):
        async with connect(f"dynamodb://{name}?endpoint={endpoint}"):
            pass
    async with connect(f"dynamodb://{name}?endpoint={endpoint}&create=true") as queue:
        described = (await queue.store.table.call("DescribeTable"))["Table"]
        assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
        ttl = await queue.store.table.call("DescribeTimeToLive")
        assert ttl["TimeToLiveDescription"]["AttributeName"] == "ttl"
    async with connect(f"dynamodb://{name}?endpoint={endpoint}") as queue:
        assert (await queue.submit("greet")).created


async def test_many_that_start_together_make_it_once(table):
    import asyncio

    name, endpoint = table
    stores = [DynamoStore(f"dynamodb://{name}?endpoint={endpoint}&create=true") for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        await store.close()


@pytest.fixture
async def crowded(table, aws_credentials):
    """A table of somebody else, with keys called PK and SK, things in it, and a task#1 of its own."""
    name, endpoint = table
    store = DynamoStore(f"dynamodb://{name}?endpoint={endpoint}&pk=PK&sk=SK&create=true")
    await store.table.call(
        "CreateTable",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("PK", "SK")],
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
    )
    things = [
        {"PK": "user#42", "SK": "profile", "name": "Ada", "status": "pending", "queue": "default"},
        {"PK": "job#mine", "SK": "somebody else's", "payload": "x"},
        {"PK": "job", "SK": "scheduled#2026-01-28T12:00:00.000000Z#x", "status": "pending"},
    ]
    for thing in things:
        await store.table.call("PutItem", Item=item_to_wire(thing))
    yield store, things
    await store.close()


async def test_it_lives_in_a_table_with_other_things_and_touches_only_its_own_keys(crowded):
    store, things = crowded
    await store.open()
    queue = Queue(store)
    await brought_to(queue, "completed", task_id="mine")
    await queue.submit("greet", 1, idempotency_key="k")
    await queue.submit("greet", 2, ordering_key="k", tags=["x"], ttl=60)
    await complete(store, await claim_one(store))
    assert len(await everything(store)) == 3
    for task in await everything(store):
        if task.status.ended:
            await queue.purge(task.id)
    found = [item for item in await items(store) if item["PK"]["S"] in {thing["PK"] for thing in things}]
    assert [item for item in found if item_to_wire(things[0]) == item]
    assert all(item_to_wire(thing) in found for thing in things)


async def test_two_stores_in_one_table_do_not_see_each_other(open_store, url):
    one = await open_store()
    other = DynamoStore(url.replace("prefix=", "prefix=other-"), one._clock)
    await Queue(one).submit("greet", "one", task_id="same")
    await Queue(other).submit("greet", "other", task_id="same")
    assert [task.input for task in await everything(one)] == ["one"]
    assert [task.input for task in await everything(other)] == ["other"]
    await other.close()


async def test_wrong_names_of_keys_are_answered_with_the_right_ones(crowded):
    store, _ = crowded
    other = DynamoStore(store.address._replace(pk="pk", sk="sk"))
    with pytest.raises(StoreUnusable, match=r"'PK' and range 'SK'.*\?pk=…&sk=…"):
        await other.open()
    await other.close()


async def test_a_table_without_the_indexes_is_answered_with_what_is_missing(crowded):
    store, _ = crowded
    other = DynamoStore(store.address._replace(create=False))
    with pytest.raises(StoreUnusable, match="tenure-due, tenure-time, tenure-all"):
        await other.open()
    await other.close()


async def test_the_number_of_shards_is_written_down_by_the_first_and_holds_for_all(open_store, url):
    await open_store(shards=4)
    silent = await open_store()
    assert silent._known.keys.shards == 4
    with pytest.raises(StoreUnusable, match="4 shards"):
        await open_store(shards=8)


async def test_a_layout_of_a_newer_version_is_refused(store, open_store):
    await store.table.write(store.table.update(store._known.keys.settings, {"layout": 99}))
    with pytest.raises(StoreTooNew):
        await open_store()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("dynamodb://", "names no table"),
        ("dynamodb://a", "names no table"),
        ("dynamodb://jobs/x", "names no table"),
        ("dynamodb://jobs?regoin=x", "Known: region"),
        ("dynamodb://jobs?create=maybe", "true or false"),
        ("dynamodb://jobs?shards=0", "at least 1"),
        ("dynamodb://jobs?shards=9999", "256"),
        ("dynamodb://jobs?poll=never", "seconds"),
        ("dynamodb://jobs?pk=", "empty"),
    ],
)
def test_a_mistake_in_an_address_is_answered_with_what_to_write(url, words):
    with pytest.raises(InvalidURL, match=words):
        read_address(url)


def test_the_templates_say_what_create_makes():
    address = read_address("dynamodb://my-jobs?pk=PK&sk=SK")
    made = description(address)
    properties = json.loads(cloudformation(address))["Resources"]["MyJobs"]["Properties"]
    assert {name: properties[name] for name in made} == made
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    text = terraform(address)
    assert 'resource "aws_dynamodb_table" "my_jobs"' in text
    for index in made["GlobalSecondaryIndexes"]:
        assert json.dumps(index["IndexName"]) in text
        assert all(json.dumps(key["AttributeName"]) in text for key in index["KeySchema"])
    assert text.count("{") == text.count("}")


async def test_the_ready_profile_has_the_defaults_of_the_document(queue):
    worker = Worker(queue, **SCHEDULED_JOBS)
    assert (worker.poll, worker.concurrency, worker.retry) == (30.0, 25, RetryPolicy.patient())
