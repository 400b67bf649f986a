"""The history topic of the conformance suite, on every store."""

from tenure.testing.conformance.history import *  # noqa: F403 - the tests of the topic
