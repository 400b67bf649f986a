"""The random comparison with the model, in two states that short tests do not come to by themselves."""

import pytest

from machine_runs import runs
from tenure.stores.s3 import S3Store, packing, store
from tenure.testing.conformance.machine import StoreMachine


class BucketMachine(StoreMachine):
    new = None

    def open_store(self, clock):
        return S3Store(self.new(), clock)


class TidyMachine(BucketMachine):
    """Everything is packed away as soon as it can be."""

    packs = 0

    def teardown(self):
        TidyMachine.packs += len(self.run(self.store.bucket.names("done/")))
        super().teardown()


@pytest.mark.usefixtures("_tidy")
class TestTidyMachine(TidyMachine.TestCase):
    settings = runs(10)


@pytest.mark.usefixtures("_quiet")
class TestQuietMachine(BucketMachine.TestCase):
    """The store believes that nothing has happened for long, and spares what requests it can."""

    settings = TestTidyMachine.settings


@pytest.fixture
def _quiet(new_s3, monkeypatch):
    BucketMachine.new = staticmethod(new_s3)
    monkeypatch.setattr(store, "QUIET", 0)


@pytest.fixture
def _tidy(new_s3, monkeypatch):
    BucketMachine.new = staticmethod(new_s3)
    monkeypatch.setattr(packing, "MANY_SEGMENTS", 1)
    monkeypatch.setattr(packing, "MANY_TASKS", 1)
    monkeypatch.setattr(packing, "PACK", 3)
    yield
    assert TidyMachine.packs > 0, "nothing was packed"
