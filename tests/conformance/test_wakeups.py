"""The wakeups topic of the conformance suite, on every store."""

from tenure.testing.conformance.wakeups import *  # noqa: F403 - the tests of the topic
