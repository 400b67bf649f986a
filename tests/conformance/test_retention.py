"""The retention topic of the conformance suite, on every store."""

from tenure.testing.conformance.retention import *  # noqa: F403 - the tests of the topic
