"""Tasks in etcd."""

from tenure.stores.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
