"""The ordering topic of the conformance suite, on every store."""

from tenure.testing.conformance.ordering import *  # noqa: F403 - the tests of the topic
