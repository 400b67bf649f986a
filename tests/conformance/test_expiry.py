"""The expiry topic of the conformance suite, on every store."""

from tenure.testing.conformance.expiry import *  # noqa: F403 - the tests of the topic
