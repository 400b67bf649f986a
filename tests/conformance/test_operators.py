"""The operators topic of the conformance suite, on every store."""

from tenure.testing.conformance.operators import *  # noqa: F403 - the tests of the topic
