"""For users' tests."""
