"""What the errors of etcd and of the connection mean to a user."""

from __future__ import annotations

import grpc

from tenure.errors import StoreError, StoreFull, StoreUnavailable, StoreUnusable

Code = grpc.StatusCode

_AWAY = (
    Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN, Code.INTERNAL, Code.ABORTED, Code.DATA_LOSS,
)  # fmt: skip


def is_away(error: grpc.aio.AioRpcError) -> bool:
    """Whether the server could not be asked, or did not answer: what it was told may have taken effect."""
    return error.code() in _AWAY


def wants_login(error: grpc.aio.AioRpcError) -> bool:
    """Whether the token is no longer good."""
    details = error.details() or ""
    return error.code() is Code.UNAUTHENTICATED or "revision of auth store is old" in details


def explained(error: grpc.aio.AioRpcError, where: str) -> StoreError:
    """The error in words that say what to do. The password is never among them."""
    code, details = error.code(), error.details() or error.code().name
    if "space exceeded" in details:
        return StoreFull(
            f"etcd at {where} has reached its quota ({details}). Nothing was written. Compact and defragment it, "
            "or raise --quota-backend-bytes, and then clear the alarm: etcdctl alarm disarm"
        )
    if "too large" in details:
        return StoreUnusable(
            f"etcd at {where} refuses a request of this size ({details}). Give it a larger --max-request-bytes."
        )
    if "authentication failed" in details or "user name is empty" in details or "is not enabled" in details:
        return StoreUnusable(f"etcd at {where} refuses: {details}. Check the user and the password in the address.")
    if code in (Code.PERMISSION_DENIED, Code.UNAUTHENTICATED):
        return StoreUnusable(
            f"etcd at {where} refuses: {details}. Grant the role of this user readwrite on the prefix of the store."
        )
    if code is Code.RESOURCE_EXHAUSTED:
        return StoreUnavailable(f"etcd at {where} is at a limit: {details}.")
    if code is Code.DEADLINE_EXCEEDED:
        return StoreUnavailable(f"etcd at {where} did not answer in time.")
    if is_away(error):
        return StoreUnavailable(f"etcd at {where} cannot be reached: {_clipped(details)}.")
    return StoreUnusable(f"etcd at {where} refuses: {details} ({code.name}).")


def _clipped(details: str) -> str:
    return details if len(details) <= 200 else details[:200] + "…"
