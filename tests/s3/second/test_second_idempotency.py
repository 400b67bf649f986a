"""The idempotency topic of the conformance suite, on a second server."""

from tenure.testing.conformance.idempotency import *  # noqa: F403 - the tests of the topic
