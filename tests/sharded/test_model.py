"""Several shards and the memory store give the same answers to the same random commands.

Three things differ, and are compared by what is promised instead: a claim follows the order of priorities within
each shard; a sweep goes shard by shard; what is forgotten first is decided in each shard.

One is left out, because shards do not keep it (decision 016, "What is not kept"): a key that was tied to a task
which was there before it, and which is forgotten before the key.
"""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from machine_runs import runs
from tenure import lifecycle
from tenure.stores.memory import MemoryStore
from tenure.stores.sharded import ShardedStore
from tenure.sweeper import Sweeper
from tenure.task import ENDED
from tenure.testing.conformance.machine import StoreMachine
from tenure.testing.conformance.steps import MICROSECOND, ids


class ShardedMachine(StoreMachine):
    def open_store(self, clock):
        store = ShardedStore.of([MemoryStore(clock) for _ in range(3)])
        self.run(store.open())
        return store

    def moment(self):
        """Shards have no common count of submits: tasks of one microsecond come in the order of their ids."""
        self.clock.advance(MICROSECOND)
        return self.clock()

    def insert(self, batch, **how):
        return super().insert(list(self._new_to_their_keys(batch)), **how)

    def _new_to_their_keys(self, batch):
        met = set()
        for words in batch:
            chosen = words.get("task_id")
            if "idempotency_key" in words and chosen is not None and (chosen in met or self.model._known(chosen)):
                continue
            met.add(chosen)
            yield words

    def claim_both(self, want):
        answer, now, model = self.run(self.store.claim(want)), self.clock(), self.model
        late = {task.id: lifecycle.overdue(task, now) for task in model._overdue(now)}
        for task in answer.overdue:
            assert task == late[task.id]
            model._put(task)
        waiting = sorted(model._runnable(want, now), key=model._turn)
        due = [task for task in waiting if task.is_available_at(now)]
        assert len(answer.tasks) == min(want.count, len(due)), "a shard was not asked although there was room"
        assert ids(answer.tasks) == [task.id for task in due if task.id in set(ids(answer.tasks))]
        for shard in self.store.shards:
            theirs = [task.id for task in due if self.store.part_of(task) is shard]
            taken = [task.id for task in answer.tasks if self.store.part_of(task) is shard]
            assert taken == theirs[: len(taken)], "not in the order of the shard"
        if not answer.tasks:
            later = [task.available_at for task in waiting if not task.is_available_at(now)]
            assert answer.next_due == min(later, default=None)
        expected = [
            model._put(
                lifecycle.claim(
                    task, worker_id=want.worker_id, now=now, lease=want.lease, policy_max=want.types[task.type]
                )
            )
            for task in due
            if task.id in set(ids(answer.tasks))
        ]
        assert list(answer.tasks) == expected
        return expected, list(answer.tasks)

    @rule()
    def sweep(self):
        swept, expected = [self.run(Sweeper(store).sweep()) for store in (self.store, self.model)]
        assert sorted(swept, key=lambda task: task.id) == sorted(expected, key=lambda task: task.id)

    @rule(status=st.sampled_from(ENDED))
    def prune_one_status(self, status):
        for store in (self.store, self.model):
            self.run(store.prune({status: self.clock()}, self.clock(), 1000))

    @rule()
    def prune_everything(self):
        for store in (self.store, self.model):
            self.run(store.prune(dict.fromkeys(ENDED, self.clock()), self.clock(), 1000))


TestShardedMachine = ShardedMachine.TestCase
TestShardedMachine.settings = runs(50)
