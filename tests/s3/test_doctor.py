"""`tenure doctor` on a bucket."""

import itertools

import pytest
from proxies import without

from tenure.doctor import examine
from tenure.queue import Queue
from tenure.stores.s3 import S3Store
from tenure.stores.s3.examining import concerns
from tenure.testing.s3 import ask, prepare

numbers = itertools.count()
VERSIONING = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


def rule(prefix, status="Enabled", what="<Expiration><Days>30</Days></Expiration>"):
    text = f"<Rule><ID>clean-up</ID><Status>{status}</Status><Filter><Prefix>{prefix}</Prefix></Filter>{what}</Rule>"
    return f"<LifecycleConfiguration>{text}</LifecycleConfiguration>".encode()


@pytest.fixture(params=["seaweedfs", "ministack"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
async def store(server):
    bucket = f"doctor-{next(numbers)}"
    store = S3Store(prepare(server, bucket, "jobs"))
    yield store
    await store.close()


async def findings(store):
    return {finding.name: finding async for finding in examine(Queue(store))}


async def test_a_bucket_in_order_passes_every_check(store, server):
    found = await findings(store)
    assert {name: finding.text for name, finding in found.items() if finding.level == "problem"} == {}
    assert found["place"].text.endswith("/jobs")
    assert (found["shards"].text, found["versioning"].text, found["lifecycle rules"].text) == ("1", "off", "0")
    assert {"clock", "reading", "writing", "create if absent", "one claim wins", "compare and swap"} <= set(found)


async def test_versions_that_pile_up_are_told(store, server):
    assert ask(server, "PUT", f"/{store.address.bucket}", "versioning", VERSIONING) == 200
    found = await findings(store)
    assert found["versioning"].level == "warning"
    assert "noncurrent" in found["versioning"].fix


@pytest.mark.parametrize(
    ("configuration", "is_problem"),
    [
        (rule(""), True),
        (rule("jobs/"), True),
        (rule("jobs/tasks/"), True),
        (rule("jobs/idempotency/"), False),
        (rule("elsewhere/"), False),
        (rule("jobs/", status="Disabled"), False),
    ],
)
async def test_a_rule_that_would_delete_tasks_is_a_problem(store, ministack, configuration, is_problem):
    store = S3Store(prepare(ministack, store.address.bucket, "jobs"))
    assert ask(ministack, "PUT", f"/{store.address.bucket}", "lifecycle", configuration) == 200
    await store.open()
    found = [concern for concern in await concerns(store.bucket) if concern.name == "lifecycle rules"]
    assert [concern.is_problem for concern in found] == [True] * is_problem
    await store.close()


async def test_conditions_that_are_no_longer_kept_are_a_problem(store, server):
    await store.open()
    async with without(server, "PUT", "If-Match") as endpoint:
        moved = S3Store(f"s3://{store.address.bucket}/jobs?endpoint={endpoint}")
        moved._known.layout = store._known.layout
        (concern, *_) = await concerns(moved.bucket)
        await moved.close()
    assert concern.is_problem
    assert "If-Match was ignored" in concern.text
