"""How Hypothesis runs here."""

from hypothesis import HealthCheck, settings

# A busy machine is slow, not wrong: no test of a pure rule fails for the time it took.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
