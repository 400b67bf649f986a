"""The random comparison with the model, with everything packed away as soon as it can be."""

import os

import pytest
from hypothesis import settings

from tenure.stores.s3 import S3Store, packing
from tenure.testing.conformance.machine import StoreMachine


class TidyMachine(StoreMachine):
    new, packs = None, 0

    def open_store(self, clock):
        return S3Store(self.new(), clock)

    def teardown(self):
        TidyMachine.packs += len(self.run(self.store.bucket.names("done/")))
        super().teardown()


@pytest.mark.usefixtures("_tidy")
class TestTidyMachine(TidyMachine.TestCase):
    settings = settings(StoreMachine.TestCase.settings, max_examples=int(os.environ.get("TENURE_MACHINE_RUNS", "10")))


@pytest.fixture
def _tidy(new_s3, monkeypatch):
    TidyMachine.new = staticmethod(new_s3)
    monkeypatch.setattr(packing, "MANY_SEGMENTS", 1)
    monkeypatch.setattr(packing, "MANY_TASKS", 1)
    monkeypatch.setattr(packing, "PACK", 3)
    yield
    assert TidyMachine.packs > 0, "nothing was packed"
