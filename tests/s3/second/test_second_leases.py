"""The leases topic of the conformance suite, on a second server."""

from tenure.testing.conformance.leases import *  # noqa: F403 - the tests of the topic
