"""The races topic of the conformance suite, on a second server."""

from tenure.testing.conformance.races import *  # noqa: F403 - the tests of the topic
