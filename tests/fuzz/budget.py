"""How long is searched: some seconds in `make test`, much longer in `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

FEW = 60
EXAMPLES = int(os.environ.get("TENURE_FUZZ_EXAMPLES", FEW))

searched = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
