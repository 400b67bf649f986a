"""The ordering topic of the conformance suite, on a second server."""

from tenure.testing.conformance.ordering import *  # noqa: F403 - the tests of the topic
