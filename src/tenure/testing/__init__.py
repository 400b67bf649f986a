"""For tests: of programs that use Tenure, and of stores.

- `FakeClock`: time that a test moves, for `connect(..., clock=clock)`.
- `run_until_done`: run a worker inline through all retries, in no time.
- `FaultyStore`: any store, with calls that fail, come late or lose their answers as planned.
- `check`: whether a finished run kept every promise, by the histories of its tasks.
- `tenure.testing.conformance`: the tests that every store must pass (needs pytest and hypothesis).
"""

from tenure.testing.checker import check
from tenure.testing.clock import FakeClock
from tenure.testing.faults import Fault, FaultKind, FaultPlan, FaultyStore, Injected
from tenure.testing.inline import NeverDone, run_until_done

__all__ = [
    "FakeClock",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "FaultyStore",
    "Injected",
    "NeverDone",
    "check",
    "run_until_done",
]
