"""What tests of several folders share."""

import itertools
import os
import sys
from pathlib import Path

import psycopg
import pytest

# Tests find the modules beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))
# PostgreSQL is started as another user, which takes a fork, and gRPC's own handlers can break the child before it
# becomes the server.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from tenure.stores.postgres.migrating import scripts
from tenure.testing import etcd
from tenure.testing.aws import Dynoxide, Ministack
from tenure.testing.postgres import FAST, PostgresServer
from tenure.testing.s3 import SeaweedFS, prepare

TABLES = (
    "tasks", "ended", "turns", "tags", "counts", "count_changes", "reservations", "stones", "notes", "listeners"
)  # fmt: skip


@pytest.fixture(scope="session")
def postgres_server():
    """One server for all tests of this process that do not harm it."""
    with PostgresServer(*FAST, "max_connections=200") as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            for script in scripts("tenure"):
                admin.execute(script)
        yield server


@pytest.fixture(scope="session")
def postgres_admin(postgres_server):
    """A connection beside those of the store."""
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        yield admin


@pytest.fixture(scope="session")
def empty_postgres(postgres_server, postgres_admin):
    """Empties the schema and gives its address. Deleting what one test left is much faster than a new schema."""
    delete = "".join(f"DELETE FROM tenure.{table};" for table in TABLES)
    # A statement whose client has gone away may still be under way, and would write after the emptying.
    busy = (
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE state <> 'idle' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )

    def empty():
        while postgres_admin.execute(busy).rowcount:
            pass
        postgres_admin.execute(delete)
        return postgres_server.url

    return empty


@pytest.fixture
def postgres_url(empty_postgres):
    """The address of an empty store."""
    return empty_postgres()


@pytest.fixture(scope="session")
def etcd_server():
    """One server for all tests of this process that do not harm it."""
    with etcd.EtcdCluster(1, *etcd.FAST) as server:
        yield server


@pytest.fixture(scope="session")
def empty_etcd(etcd_server):
    """Gives the address of an empty store: a prefix that nobody has used."""
    numbers = itertools.count()
    return lambda: etcd_server.url(f"tests/{next(numbers)}")


@pytest.fixture
def etcd_url(empty_etcd):
    """The address of an empty store."""
    return empty_etcd()


@pytest.fixture(scope="session")
def aws_credentials():
    """Servers of one's own take any; nothing of the machine's real ones is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield


@pytest.fixture(scope="session")
def ministack(aws_credentials):
    """One server of DynamoDB and S3 for all tests of this process that do not harm it."""
    with Ministack() as server:
        yield server


@pytest.fixture(scope="session")
def dynoxide(aws_credentials):
    """One server of DynamoDB alone, much faster."""
    with Dynoxide() as server:
        yield server


@pytest.fixture(scope="session")
def new_dynamodb(dynoxide):
    """Gives the address of an empty store: keys of its own in a table that is made once."""
    numbers = itertools.count()

    def new():
        return f"dynamodb://tasks?endpoint={dynoxide.endpoint}&create=true&prefix={next(numbers)}~&poll=0.2"

    return new


@pytest.fixture
def dynamodb_url(new_dynamodb):
    """The address of an empty store."""
    return new_dynamodb()


@pytest.fixture(scope="session")
def seaweedfs(aws_credentials):
    """One real server of S3 for all tests of this process that do not harm it."""
    with SeaweedFS() as server:
        yield server


@pytest.fixture(scope="session")
def new_s3(seaweedfs):
    """Gives the address of an empty store: a prefix that nobody has used."""
    numbers = itertools.count()
    return lambda: prepare(seaweedfs, "tests", f"q{next(numbers)}")


@pytest.fixture
def s3_url(new_s3):
    """The address of an empty store."""
    return new_s3()
