"""The submit topic of the conformance suite, on every store."""

from tenure.testing.conformance.submit import *  # noqa: F403 - the tests of the topic
