"""The moving topic of the conformance suite, on a second server."""

from tenure.testing.conformance.moving import *  # noqa: F403 - the tests of the topic
