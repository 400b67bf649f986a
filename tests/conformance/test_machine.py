"""SQLite and the memory store give the same answers to the same random commands."""

import tempfile
from pathlib import Path

from tenure.stores.sqlite import SqliteStore
from tenure.testing.conformance.machine import StoreMachine


class SqliteMachine(StoreMachine):
    def open_store(self, clock):
        self.folder = tempfile.TemporaryDirectory(prefix="tenure-machine-")
        return SqliteStore(Path(self.folder.name) / "tasks.db", clock)

    def teardown(self):
        super().teardown()
        self.folder.cleanup()


TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = StoreMachine.TestCase.settings
