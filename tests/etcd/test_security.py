"""Users, passwords and certificates."""

import subprocess

import pytest

from tenure import connect
from tenure.errors import InvalidURL, StoreUnavailable, StoreUnusable
from tenure.stores.etcd.address import read_address
from tenure.testing.etcd import EtcdCluster


@pytest.fixture(scope="module")
def guarded():
    """A server with a user who may read and write below one prefix."""
    with EtcdCluster(1, "--auth-token-ttl", "1") as cluster:
        for command in (
            "user add root:secret", "user grant-role root root", "role add tasks",
            "role grant-permission tasks readwrite --prefix=true tenure/", "user add ada:pass%40word",
            "user grant-role ada tasks", "auth enable",
        ):  # fmt: skip
            cluster.control(*command.replace("pass%40word", "p@ss/word").split())
        yield cluster


def address(cluster, login, prefix="tenure"):
    return f"etcd://{login}@{cluster.members[0].endpoint}/{prefix}?timeout=5"


ADA = "ada:p%40ss%2Fword"


async def test_a_user_with_a_password_can_do_everything_below_the_prefix(guarded):
    async with connect(address(guarded, ADA)) as queue:
        task = await queue.submit("greet")
        assert (await queue.get(task.id)).status == "pending"
        mark = queue.store.mark()
        await queue.cancel(task.id)
        await queue.store.wait(mark, 5)


async def test_a_token_that_is_no_longer_good_is_replaced(guarded):
    async with connect(address(guarded, ADA)) as queue:
        await queue.submit("greet")
        queue.store._client._token = "long gone"
        assert (await queue.submit("greet")).created is True
        guarded.control("user", "add", "bob:bob", "--user", "root:secret")
        assert (await queue.submit("greet")).created is True


@pytest.mark.parametrize("login", ["ada:wrong", "nobody:at-all"])
async def test_a_wrong_password_is_said_without_repeating_it(guarded, login):
    async with connect(address(guarded, login)) as queue:
        with pytest.raises(StoreUnusable, match="Check the user and the password") as refusal:
            await queue.submit("greet")
    assert login.partition(":")[2] not in str(refusal.value)


async def test_no_user_at_all_is_answered_with_what_to_do(guarded):
    async with connect(f"etcd://{guarded.members[0].endpoint}/tenure?timeout=5") as queue:
        with pytest.raises(StoreUnusable, match="Check the user and the password"):
            await queue.submit("greet")


async def test_a_prefix_that_is_not_granted_is_answered_with_what_to_do(guarded):
    async with connect(address(guarded, ADA, "elsewhere")) as queue:
        with pytest.raises(StoreUnusable, match="Grant the role"):
            await queue.submit("greet")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    commands = [
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=x -keyout server.key -out server.csr -addext subjectAltName=IP:127.0.0.1",
        "x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy -out server.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=client -keyout client.key -out client.csr",
        "x509 -req -days 2 -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out client.pem",
    ]
    for command in commands:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def encrypted(certificates):
    settings = [
        "--cert-file", certificates / "server.pem", "--key-file", certificates / "server.key",
        "--trusted-ca-file", certificates / "ca.pem", "--client-cert-auth",
    ]  # fmt: skip
    with EtcdCluster(1, *map(str, settings)) as cluster:
        yield cluster


async def test_an_encrypted_connection_with_certificates_on_both_sides(encrypted, certificates):
    files = "&".join(
        f"{name}={certificates}/{file}"
        for name, file in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
    )
    async with connect(f"etcd://{encrypted.members[0].endpoint}/tenure?{files}") as queue:
        task = await queue.submit("greet")
        assert (await queue.get(task.id)).status == "pending"


async def test_a_server_whose_certificate_is_unknown_is_not_talked_to(encrypted):
    async with connect(f"etcd://{encrypted.members[0].endpoint}/tenure?tls=true&timeout=1") as queue:
        with pytest.raises(StoreUnavailable):
            await queue.submit("greet")


async def test_an_unencrypted_connection_to_an_encrypted_server_fails_in_time(encrypted):
    async with connect(f"etcd://{encrypted.members[0].endpoint}/tenure?timeout=1") as queue:
        with pytest.raises(StoreUnavailable):
            await queue.submit("greet")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("etcd://", "etcd://host1:2379,host2:2379/prefix"),
        ("etcd://host:port/x", "'host:port'"),
        ("etcd://host:99999/x", "'host:99999'"),
        ("etcd://a,,b/x", "''"),
        ("etcd://host/x?tsl=true", "tls, ca, cert, key, timeout"),
        ("etcd://host/x?tls=perhaps", "true or false"),
        ("etcd://host/x?timeout=never", "number of seconds"),
        ("etcd://host/x?timeout=0", "number of seconds"),
        ("etcd://host/x?ca=/nowhere.pem", "is no file"),
    ],
)
def test_a_mistake_in_an_address_is_answered_with_what_to_write(url, words):
    with pytest.raises(InvalidURL, match=words):
        read_address(url)


def test_a_certificate_without_its_key_is_refused(tmp_path):
    file = tmp_path / "client.pem"
    file.touch()
    with pytest.raises(InvalidURL, match="both cert= and key="):
        read_address(f"etcd://host/x?cert={file}")


@pytest.mark.parametrize(
    ("url", "endpoints", "prefix"),
    [
        ("etcd://host", ("host:2379",), "tenure"),
        ("etcd://h1:1,h2:2,h3/a/b", ("h1:1", "h2:2", "h3:2379"), "a/b"),
        ("etcd://[::1]:7,[::2]/x", ("[::1]:7", "[::2]:2379"), "x"),
        ("etcd://ada:s%2Fe@host/x", ("host:2379",), "x"),
    ],
)
def test_addresses(url, endpoints, prefix):
    address = read_address(url)
    assert (address.endpoints, address.prefix) == (endpoints, prefix)
