"""Stores without a schema of SQL: everything that such a store keeps as readable JSON, and back into an empty one."""

import json
from operator import itemgetter

import msgspec

from tenure.stores.dynamodb import DynamoStore
from tenure.stores.dynamodb.wire import item_from_wire, item_to_wire
from tenure.stores.etcd import EtcdStore
from tenure.stores.etcd.client import TXN
from tenure.stores.etcd.layout import after
from tenure.stores.etcd.requests import Txn, put, walk
from tenure.stores.s3 import S3Store
from tenure.testing.s3 import ask

PREFIX = "kept-here"
"""What all names of a fixture begin with; it gives way to the prefix of the store that takes it in."""


class Kept:
    """One kind of store, at an address for which the tests have a server."""

    async def tidy(self, store):
        """Pack what has ended, where that is done."""

    async def taken_out(self, store):
        try:
            return json.dumps(await self.take_out(store), indent=1, ensure_ascii=False) + "\n"
        finally:
            await store.close()

    async def opened(self, text, clock=None):
        """The store with what is kept, as this version sees it."""
        store = self.Store(self.url, clock)
        await store.open()
        await self.put_in(store, text)
        await store.close()
        return self.Store(self.url, clock)


class DynamoDB(Kept):
    """Items in the order of their keys."""

    Store = DynamoStore

    def __init__(self, request):
        self.url = request.getfixturevalue("dynamodb_url")

    async def take_out(self, store):
        items = (await store.table.call("Scan", ConsistentRead=True))["Items"]
        return sorted((dict(sorted(item_from_wire(item).items())) for item in items), key=itemgetter("pk", "sk"))

    async def put_in(self, store, text):
        for item in json.loads(text.replace(PREFIX, store.address.prefix)):
            await store.table.call("PutItem", Item=item_to_wire(item))


class S3(Kept):
    """Objects by name."""

    Store = S3Store

    def __init__(self, request):
        self.url, self._server = request.getfixturevalue("s3_url"), request.getfixturevalue("seaweedfs")

    async def tidy(self, store):
        await store._packing.tidy(0)
        packs = [known.name for known in await store._packs.all()]
        await store._packs._write_down(0, set(packs))

    async def take_out(self, store):
        names = [each.name for each in await store.bucket.names("")]
        bodies = {name: (await store.bucket.read(name)).body for name in names}
        objects = {name: json.loads(body) for name, body in bodies.items()}
        assert {name: msgspec.json.encode(each) for name, each in objects.items()} == bodies, "a summary names a tag"
        return objects

    async def put_in(self, store, text):
        for name, value in json.loads(text).items():
            path, body = f"/{store.address.bucket}/{store.address.key(name)}", msgspec.json.encode(value)
            assert ask(self._server, "PUT", path, body=body) == 200


class Etcd(Kept):
    """Values by key. Each gets a revision of its own, so that the log is at least as long as it was."""

    Store = EtcdStore

    def __init__(self, request):
        self.url = request.getfixturevalue("etcd_url")

    async def take_out(self, store):
        root = store._db.layout.root
        (found,) = await store._db.read([walk(root, after(root))])
        return {kv.key.decode(): kv.value.decode() for kv in found}

    async def put_in(self, store, text):
        root = store._db.layout.root.decode()
        for key, value in json.loads(text.replace(f"{PREFIX}/", root)).items():
            await store._client.ask(TXN, Txn(success=[put(key.encode(), value.encode())]))


KEPT = {"dynamodb": DynamoDB, "s3": S3, "etcd": Etcd}
