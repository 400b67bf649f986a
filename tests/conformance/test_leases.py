"""The leases topic of the conformance suite, on every store."""

from tenure.testing.conformance.leases import *  # noqa: F403 - the tests of the topic
