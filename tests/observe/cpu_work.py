"""Handlers for processes of their own, which import them by name."""


def breaks(input):
    return 1 / 0
