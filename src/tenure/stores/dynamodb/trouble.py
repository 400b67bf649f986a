"""What DynamoDB refuses, in words that say what to do."""

from __future__ import annotations

from typing import NamedTuple

from tenure.errors import StoreError, StoreUnavailable, StoreUnusable
from tenure.stores.dynamodb.address import Address
from tenure.stores.dynamodb.wire import Item

_RIGHTS = (
    "The credentials need dynamodb:GetItem, BatchGetItem, Query, PutItem, UpdateItem, DeleteItem, ConditionCheckItem and "
    "DescribeTable on the table and its indexes."
)


class Refused(StoreUnusable):
    """DynamoDB does not do what it was asked, and would not the next time; `code` is its word for why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class ConditionFailed(Exception):
    """A condition of a write did not hold; `item` is what stood there, None when nothing did.

    When `repeated`, an earlier sending of the same write may have taken effect.
    """

    def __init__(self, item: Item | None, *, repeated: bool) -> None:
        super().__init__("a condition did not hold")
        self.item, self.repeated = item, repeated


class Reason(NamedTuple):
    """Why one write of a transaction was not made: a code (`None` in words: nothing wrong), what stood there, a text."""

    code: str
    item: Item | None = None
    text: str = ""


class Cancelled(Exception):
    """A transaction was cancelled, with a reason for each of its writes."""

    def __init__(self, reasons: list[Reason]) -> None:
        super().__init__(", ".join(reason.code for reason in reasons))
        self.reasons = reasons


def refusal(code: str, message: str, address: Address) -> StoreError:
    """The error for an answer that is neither success nor a condition."""
    where = f"DynamoDB, {address.shown}"
    if code == "ResourceNotFoundException":
        return Refused(
            f"{where}: there is no such table or index ({message}). Add create=true to the address to make it, "
            "or see `tenure table` for a template.",
            code,
        )
    if code in ("AccessDeniedException", "AccessDenied"):
        return Refused(f"{where} refuses: {message}. {_RIGHTS}", code)
    if code in ("ExpiredTokenException", "ExpiredToken"):
        return StoreUnavailable(f"{where}: the credentials have run out ({message}). Sign in again.")
    if code in ("UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationToken"):
        return Refused(
            f"{where} does not know these credentials ({message}). Check the access key and its secret.",
            code,
        )
    if "Item size" in message or "item size" in message:
        return Refused(
            f"{where}: a task takes at most 400 KB with all that it carries ({message}). Keep large values elsewhere.",
            code,
        )
    return Refused(f"{where} refuses: {message or 'without a reason'} (code {code or 'none'}).", code)
