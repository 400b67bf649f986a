"""Tasks in one SQLite file: the embedded default."""

from tenure.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
