"""The notes topic of the conformance suite, on a second server."""

from tenure.testing.conformance.notes import *  # noqa: F403 - the tests of the topic
