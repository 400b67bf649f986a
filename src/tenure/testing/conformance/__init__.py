"""The tests that every store must pass, for authors of stores.

They need pytest, pytest-asyncio in auto mode, and hypothesis. In a `conftest.py`:

    from tenure.testing.conformance.fixtures import *

    @pytest.fixture
    async def open_store(tmp_path):
        async def open_store(clock):
            return MyStore(tmp_path / "tasks", clock=clock)
        yield open_store
        # close here what was opened

Each call of `open_store` in one test is another handle on the same storage. Then one small
test module per topic:

    from tenure.testing.conformance.claims import *

The topics are `submit`, `idempotency`, `claims`, `leases`, `ends`, `expiry`, `operators`,
`ordering`, `history`, `listing`, `retention`, `moving`, `notes`, `wakeups`, `closing`, `races`,
`boundaries`, `newer` and `faults`. `machine` compares a store with the memory store under random commands.

Some tests need a storage in a state that no call of Tenure leaves behind: a producer that died
between its two writes, a task that is gone. The fixture `tamper` gives them a `Tampering`
for the store; see there.
"""

import pytest

TOPICS = (
    "submit", "idempotency", "claims", "leases", "ends", "expiry", "operators", "ordering", "history", "listing",
    "retention", "moving", "notes", "wakeups", "closing", "races", "boundaries", "newer", "faults",
)  # fmt: skip

pytest.register_assert_rewrite(*(f"{__name__}.{topic}" for topic in (*TOPICS, "steps", "machine")))
