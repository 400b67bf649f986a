"""The boundaries topic of the conformance suite, on every store."""

from tenure.testing.conformance.boundaries import *  # noqa: F403 - the tests of the topic
