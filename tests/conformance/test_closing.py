"""The closing topic of the conformance suite, on every store."""

from tenure.testing.conformance.closing import *  # noqa: F403 - the tests of the topic
