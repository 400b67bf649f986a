"""The faults topic of the conformance suite, on every store."""

from tenure.testing.conformance.faults import *  # noqa: F403 - the tests of the topic
