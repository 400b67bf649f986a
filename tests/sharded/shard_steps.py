"""What several tests of shards need."""

import contextlib

from tenure import Worker
from tenure.idempotency import Kind, hash_key, identity
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.stores.sharded import ShardedStore
from tenure.testing.conformance.steps import everything


async def in_memory(count, *clocks):
    """A queue of so many shards in memory; the last clock serves all that have none of their own."""
    stores = [MemoryStore(clocks[min(number, len(clocks) - 1)]) for number in range(count)]
    store = ShardedStore.of(stores)
    await store.open()
    return Queue(store)


def key_in(store, shard, kind="greet"):
    """An idempotency key of this type whose record this shard keeps."""
    for number in range(1000):
        name = identity(Kind.TaskType, kind, hash_key(kind, f"key-{number}"))
        if store.places.of_text(name) == shard:
            return f"key-{number}"
    raise AssertionError


def text_in(store, shard, name="user"):
    """An ordering key or an id that leads to this shard."""
    return next(f"{name}-{number}" for number in range(1000) if store.places.of_text(f"{name}-{number}") == shard)


async def counted(store):
    """How many tasks each shard has."""
    return [len(await everything(shard)) for shard in store.shards]


async def work_off(queue, *types, **settings):
    """Run everything that is due with handlers that do nothing; how many ran, by shard."""
    worker = Worker(queue, **settings)
    ran = dict.fromkeys(range(len(queue.store.parts())), 0)

    async def note(input, context):
        ran[queue.store.part_of(context.task).number] += 1

    for each in types or ("greet",):
        worker.task(each)(note)
    await worker.run(until_idle=True)
    return ran


@contextlib.contextmanager
def recorded(caplog, logger="tenure"):
    """The warnings that are logged meanwhile."""
    caplog.clear()
    lines = []
    with caplog.at_level("WARNING", logger=logger):
        yield lines
    lines += [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
