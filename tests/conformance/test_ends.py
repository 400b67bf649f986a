"""The ends topic of the conformance suite, on every store."""

from tenure.testing.conformance.ends import *  # noqa: F403 - the tests of the topic
