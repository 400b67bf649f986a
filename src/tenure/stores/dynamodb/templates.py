"""The table for people whose programs may not make it: a fragment for CloudFormation, and one for Terraform."""

from __future__ import annotations

import json
import re
from typing import Any

from tenure.stores.dynamodb.address import Address
from tenure.stores.dynamodb.making import TTL, description


def cloudformation(address: Address) -> str:
    """A resource for a template of CloudFormation."""
    properties: dict[str, Any] = {"TableName": address.table, **description(address)}
    properties["TimeToLiveSpecification"] = {"AttributeName": TTL, "Enabled": True}
    properties["PointInTimeRecoverySpecification"] = {"PointInTimeRecoveryEnabled": True}
    resource = {"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "Retain", "Properties": properties}
    return json.dumps({"Resources": {_logical(address.table): resource}}, indent=2)


def terraform(address: Address) -> str:
    """A resource for Terraform."""
    described = description(address)
    keys = _keys(described["KeySchema"])
    lines = [
        f'resource "aws_dynamodb_table" "{re.sub("[^a-zA-Z0-9_]", "_", address.table)}" {{',
        f"  name         = {json.dumps(address.table)}",
        '  billing_mode = "PAY_PER_REQUEST"',
        f"  hash_key     = {json.dumps(keys['HASH'])}",
        f"  range_key    = {json.dumps(keys['RANGE'])}",
    ]
    for definition in described["AttributeDefinitions"]:
        lines += _block("attribute", [("name", definition["AttributeName"]), ("type", definition["AttributeType"])])
    for index in described["GlobalSecondaryIndexes"]:
        keys, projection = _keys(index["KeySchema"]), index["Projection"]
        values = [
            ("name", index["IndexName"]),
            ("hash_key", keys["HASH"]),
            ("range_key", keys["RANGE"]),
            ("projection_type", projection["ProjectionType"]),
        ]
        if "NonKeyAttributes" in projection:
            values.append(("non_key_attributes", projection["NonKeyAttributes"]))
        lines += _block("global_secondary_index", values)
    lines += _block("ttl", [("attribute_name", TTL), ("enabled", True)])
    lines += _block("point_in_time_recovery", [("enabled", True)])
    return "\n".join([*lines, "}"])


def _block(name: str, values: list[tuple[str, Any]]) -> list[str]:
    width = max(len(key) for key, _ in values)
    return ["", f"  {name} {{", *(f"    {key:{width}} = {json.dumps(value)}" for key, value in values), "  }"]


def _keys(schema: list[dict[str, str]]) -> dict[str, str]:
    return {part["KeyType"]: part["AttributeName"] for part in schema}


def _logical(table: str) -> str:
    """A name of letters and digits, as CloudFormation wants it.

    >>> _logical("my-jobs.v2")
    'MyJobsV2'
    """
    return "".join(part[:1].upper() + part[1:] for part in re.split("[^a-zA-Z0-9]+", table)) or "Jobs"
