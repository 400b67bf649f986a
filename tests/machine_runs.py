"""How thoroughly stores are compared with the model."""

import os

from hypothesis import Phase, settings

from tenure.testing.conformance.machine import StoreMachine

SEARCH = os.environ.get("TENURE_MACHINE_RUNS")


def runs(usual: int) -> settings:
    """So many runs of forty commands: some seconds in `make test`, many more in `make fuzz`.

    To make what was found smaller takes minutes. Only a search does that: a run of all tests tells at once what it found.
    """
    phases = tuple(Phase) if SEARCH else (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(
        StoreMachine.TestCase.settings, max_examples=int(SEARCH or usual), phases=phases, print_blob=True
    )  # fmt: skip
