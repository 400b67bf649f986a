"""The retention topic of the conformance suite, on a second server."""

from tenure.testing.conformance.retention import *  # noqa: F403 - the tests of the topic
