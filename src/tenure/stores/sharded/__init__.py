"""Several stores as one."""

from tenure.stores.sharded.store import ShardedStore

__all__ = ["ShardedStore"]
