"""The DynamoDB store."""

from tenure.stores.dynamodb.store import DynamoStore

__all__ = ["DynamoStore"]
