"""Tasks in PostgreSQL: the production store, inside the user's own transactions."""

from tenure.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
