"""The races topic of the conformance suite, on every store."""

from tenure.testing.conformance.races import *  # noqa: F403 - the tests of the topic
