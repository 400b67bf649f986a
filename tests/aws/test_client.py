"""One client for every service: it signs, tries again, and says what may have happened."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from tenure.errors import StoreUnusable
from tenure.stores.aws import Access, AwsClient, AwsUnavailable, Request
from tenure.stores.aws.transport import Reply
from tenure.testing.aws import Fault, FaultyTransport
from tenure.testing.ports import free_port


@pytest.fixture(autouse=True)
def _credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


class Server:
    """Answers with what it is told to, and remembers what it was asked."""

    def __init__(self):
        self.asked = []
        self.answers = []
        self.date = None

    async def handle(self, request):
        self.asked.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        status, body = self.answers.pop(0) if self.answers else (200, b"{}")
        headers = {} if self.date is None else {"Date": self.date}
        return web.Response(status=status, body=body, headers=headers)


@pytest.fixture
async def server():
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def client(server):
    client = AwsClient(Access("dynamodb", region="eu-central-1", endpoint=server.endpoint))
    client.pauses = (0.0, 0.0)
    yield client
    await client.close()


def planned(client, *faults):
    """Let these faults happen to the next requests, one each."""
    left = list(faults)
    client.transport = FaultyTransport(client.transport, lambda *_: left.pop(0) if left else None)


async def test_a_request_arrives_as_it_was_signed(client, server):
    answer = await client.send(Request("GetItem", query=[("a b", "ü/")], headers={"X-Amz-Target": "T"}, body=b"{}"))
    assert answer.ok
    assert not answer.repeated
    method, path, headers, body = server.asked[0]
    assert (method, path, body) == ("POST", "/?a%20b=%C3%BC%2F", b"{}")
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-central-1/dynamodb/aws4_request" in headers["Authorization"]


async def test_the_servers_time_comes_with_every_answer(client, server):
    server.date = "Wed, 28 Jan 2026 17:00:00 GMT"
    await client.send(Request("GetItem"))
    assert timedelta(0) <= datetime(2026, 1, 28, 17, 0, 1, tzinfo=UTC) - client.clock.now() < timedelta(seconds=2)


async def test_a_machine_with_a_wrong_clock_signs_with_the_servers_time(client, server):
    server.date = "Wed, 28 Jan 2026 17:00:00 GMT"
    server.answers = [(400, b'{"__type":"x#InvalidSignatureException","message":"Signature expired"}')]
    assert (await client.send(Request("GetItem"))).ok
    assert server.asked[1][2]["x-amz-date"].startswith("20260128T1")
    server.answers = [(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")] * 2
    assert (await client.send(Request("GetItem"))).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("fault", [Fault.Throttled, Fault.NotSent])
async def test_what_certainly_took_no_effect_is_tried_again_without_doubt(client, fault):
    planned(client, fault, fault)
    answer = await client.send(Request("PutItem"))
    assert answer.ok
    assert not answer.repeated
    assert client.counts["PutItem"] == 3


@pytest.mark.parametrize(
    "fault",
    [
        Fault.ServerError,
        Fault.ServerErrorAfterEffect,
        Fault.LostBeforeEffect,
        Fault.LostAfterEffect,
    ],
)
async def test_what_may_have_taken_effect_is_tried_again_and_told(client, fault):
    planned(client, fault)
    answer = await client.send(Request("PutItem"))
    assert answer.ok
    assert answer.repeated


async def test_an_answer_that_is_cut_counts_as_lost(client, server):
    server.answers = [(200, b'{"a": 1'), (200, b'{"a": 1}')]

    def read(body):
        if not body.endswith(b"}"):
            raise ValueError(body)
        return body

    answer = await client.send(Request("PutItem", read=read))
    assert answer.value == b'{"a": 1}'
    assert answer.repeated


async def test_an_answer_shorter_than_it_says_counts_as_lost(client):
    planned(client, Fault.Truncated)
    answer = await client.send(Request("GET", "GET"))
    assert (answer.body, answer.repeated) == (b"{}", True)


@pytest.mark.parametrize(("method", "status"), [("GET", 304), ("DELETE", 204), ("HEAD", 200)])
async def test_an_answer_without_a_body_may_tell_the_length_of_one(client, method, status):
    class Silent:
        async def exchange(self, *_):
            return Reply(status, {"Content-Length": "100"}, b"")

        async def close(self):
            pass

    await client.close()
    client.transport = Silent()
    answer = await client.send(Request(method, method))
    assert (answer.status, answer.repeated) == (status, False)


@pytest.mark.parametrize(
    ("fault", "may"), [(Fault.NotSent, False), (Fault.Throttled, False), (Fault.LostBeforeEffect, True)]
)
async def test_when_trying_again_does_not_help_the_error_says_what_may_have_happened(client, fault, may):
    planned(client, *[fault] * 100)
    with pytest.raises(AwsUnavailable) as caught:
        await client.send(Request("PutItem"))
    assert caught.value.may_have_taken_effect is may
    assert client.counts["PutItem"] == 8


async def test_a_refusal_is_an_answer(client, server):
    server.answers = [(400, b'{"__type":"x#ConditionalCheckFailedException"}')]
    answer = await client.send(Request("PutItem"))
    assert (answer.ok, answer.code) == (False, "ConditionalCheckFailedException")


async def test_a_server_that_is_not_there_is_told_apart_from_a_lost_answer():
    client = AwsClient(Access("dynamodb", endpoint=f"http://127.0.0.1:{free_port()}"))
    client.pauses = (0.0, 0.0)
    with pytest.raises(AwsUnavailable, match="cannot be reached") as caught:
        await client.send(Request("PutItem"))
    assert not caught.value.may_have_taken_effect
    await client.close()


async def test_a_server_that_does_not_answer_in_time_may_have_done_it(server):
    async def silent(reader, writer):
        try:
            await reader.read()
        finally:
            writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    client = AwsClient(Access("dynamodb", endpoint=endpoint), timeout=0.02)
    client.pauses = (0.0, 0.0)
    with pytest.raises(AwsUnavailable, match="did not answer") as caught:
        await client.send(Request("PutItem"))
    assert caught.value.may_have_taken_effect
    await client.close()
    listener.close()


async def test_credentials_and_region_come_from_where_every_aws_tool_finds_them(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text("[profile work]\nregion = eu-west-1\n")
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = W\naws_secret_access_key = S\n")
    access = Access("dynamodb", profile="work")
    assert (await access.keys()).access_key == "W"
    assert await access.place() == ("https://dynamodb.eu-west-1.amazonaws.com", "eu-west-1")


async def test_without_credentials_the_error_says_how_to_give_them(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(StoreUnusable, match="AWS_PROFILE"):
        await Access("dynamodb").keys()


async def test_without_a_region_the_error_says_how_to_choose_one(monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    with pytest.raises(StoreUnusable, match="region="):
        await Access("dynamodb").place()


async def test_credentials_that_end_soon_are_renewed_without_a_request_waiting_for_it():
    access = Access("dynamodb")
    credentials = FakeRefreshing()
    access._credentials = credentials
    assert (await access.keys()).access_key == "key 1"
    credentials.seconds_left = 12 * 60
    assert (await access.keys()).access_key == "key 1"
    await access._refreshing
    assert (await access.keys()).access_key == "key 2"
    credentials.seconds_left = 60
    assert (await access.keys()).access_key == "key 3"


class FakeRefreshing:
    """Credentials with an end, as botocore has them."""

    def __init__(self):
        self.number, self.seconds_left = 0, 3600.0

    def refresh_needed(self, seconds):
        return self.seconds_left < seconds

    def get_frozen_credentials(self):
        self.number, self.seconds_left = self.number + 1, 3600.0

        class Frozen:
            access_key, secret_key, token = f"key {self.number}", "secret", None

        return Frozen
