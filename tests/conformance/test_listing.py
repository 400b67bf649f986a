"""The listing topic of the conformance suite, on every store."""

from tenure.testing.conformance.listing import *  # noqa: F403 - the tests of the topic
