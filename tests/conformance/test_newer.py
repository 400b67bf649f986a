"""The newer topic of the conformance suite, on every store."""

from tenure.testing.conformance.newer import *  # noqa: F403 - the tests of the topic
