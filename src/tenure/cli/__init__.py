"""The command line. It formats what `Queue` returns and decides nothing."""

from __future__ import annotations


def main() -> None:
    """Run the command that the arguments of this process name."""
    from tenure.cli.program import run

    run()
