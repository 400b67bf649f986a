"""The claims topic of the conformance suite, on every store."""

from tenure.testing.conformance.claims import *  # noqa: F403 - the tests of the topic
