"""Durable tasks in a bucket of S3 or any service like it."""

from tenure.stores.s3.store import S3Store

__all__ = ["S3Store"]
