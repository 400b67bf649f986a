"""The one place that turns an error into a line or two and an exit code."""

from __future__ import annotations

DONE, REFUSED, USAGE, UNREACHABLE = 0, 1, 2, 3
"""What the exit codes mean: done; refused or not found; wrong usage; the store cannot be reached or used."""


class CommandFailed(Exception):
    """A command ends here, with these words and this exit code."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


class WrongUsage(CommandFailed):
    """The words of the command line do not fit together."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


def exit_code(error: BaseException) -> int | None:
    """The exit code of an error that has been foreseen; None for any other."""
    from tenure.errors import DamagedRecord, InvalidHandler, InvalidInput, MissingExtra, StoreError, TenureError

    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(error, DamagedRecord):
        return REFUSED
    if isinstance(error, StoreError | MissingExtra):
        return UNREACHABLE
    if isinstance(error, InvalidInput | InvalidHandler):
        return USAGE
    return REFUSED if isinstance(error, TenureError) else None
