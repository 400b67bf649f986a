"""Making the table, or saying what is missing in one that is there."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.errors import StoreTooNew, StoreUnavailable, StoreUnusable
from tenure.stores.dynamodb.address import Address
from tenure.stores.dynamodb.keys import ALL, DUE, KEYS_OF, TIME, Keys
from tenure.stores.dynamodb.table import Table
from tenure.stores.dynamodb.trouble import ConditionFailed, Refused

FORMAT = 1
"""The version of the layout of keys and indexes."""
TTL = "ttl"
PROJECTED: dict[str, list[str]] = {
    DUE: [],
    TIME: ["job_type", "queue", "status"],
    ALL: ["job_type", "queue", "ordering_key", "tags", "created_at"],
}
"""Attributes that stand in an index beside the keys, so that an entry can be judged without its item."""
NO_TABLE = "ResourceNotFoundException"
IN_WORK = ("ResourceInUseException", "LimitExceededException")
"""Codes that say that somebody else is making it at this moment."""
WAIT = 0.5
PATIENCE = 600


def description(address: Address) -> dict[str, Any]:
    """The table as CreateTable wants it: paid by request, with the three indexes."""
    names = [address.pk, address.sk, *(name for pair in KEYS_OF.values() for name in pair)]
    return {
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
        "KeySchema": _schema(address.pk, address.sk),
        "BillingMode": "PAY_PER_REQUEST",
        "GlobalSecondaryIndexes": [index(name) for name in KEYS_OF],
    }


def index(name: str) -> dict[str, Any]:
    """One index."""
    projection: dict[str, Any] = {"ProjectionType": "KEYS_ONLY"}
    if PROJECTED[name]:
        projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": PROJECTED[name]}
    return {"IndexName": name, "KeySchema": _schema(*KEYS_OF[name]), "Projection": projection}


def _schema(pk: str, sk: str) -> list[dict[str, str]]:
    return [{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]


async def prepare(table: Table) -> int:
    """See that the table and its indexes are there, or make them if that was asked for; answers with the number of shards."""
    address = table.address
    try:
        return await _settled(table)
    except Refused as refused:
        if not address.create or refused.code != NO_TABLE:
            raise
    await _create(table)
    return await _settled(table)


async def _settled(table: Table) -> int:
    await _complete(table, await _described(table))
    return await _settings(table)


async def _described(table: Table) -> dict[str, Any] | None:
    """What the table is, or None when these credentials may not ask."""
    try:
        answer = await table.call("DescribeTable")
    except Refused as refused:
        if refused.code == NO_TABLE:
            raise
        return None
    described: dict[str, Any] = answer["Table"]
    return described


async def _create(table: Table) -> None:
    try:
        await table.call("CreateTable", **description(table.address))
    except Refused as refused:
        if refused.code not in IN_WORK:
            raise
    await _until_ready(table)
    await _set_ttl(table)


async def _set_ttl(table: Table) -> None:
    try:
        await table.call("UpdateTimeToLive", TimeToLiveSpecification={"AttributeName": TTL, "Enabled": True})
    except Refused:
        # Somebody has set it already, or it may not be set: prune deletes what is outdated in any case.
        return


async def time_to_live(table: Table) -> str:
    """Whether DynamoDB deletes outdated records by itself, in words."""
    try:
        said = (await table.call("DescribeTimeToLive"))["TimeToLiveDescription"]
    except Refused:
        return "not known: these credentials may not ask"
    on = said.get("AttributeName") == TTL and said.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    return f"on, by the attribute {TTL}" if on else f"off: enable it on the attribute {TTL}, or let workers prune"


async def _complete(table: Table, described: dict[str, Any] | None) -> None:
    """See that keys and indexes are the right ones; add indexes to a table that holds other things, if asked."""
    if described is None:
        return
    keys = {part["KeyType"]: part["AttributeName"] for part in described["KeySchema"]}
    address = table.address
    if keys != {"HASH": address.pk, "RANGE": address.sk}:
        found = " and ".join(f"{kind.lower()} {name!r}" for kind, name in keys.items())
        msg = f"The keys of {address.shown} are {found}. Give their names: ?pk=…&sk=… (both are needed, as strings)."
        raise StoreUnusable(msg)
    while missing := [name for name in KEYS_OF if name not in _indexes(described)]:
        if not address.create:
            msg = (
                f"{address.shown} has no index {', '.join(missing)}. Add create=true to the address to add what is missing, "
                "or see `tenure table` for a template."
            )
            raise StoreUnusable(msg)
        await _add_index(table, missing[0])
        described = (await table.call("DescribeTable"))["Table"]
        await _set_ttl(table)
    if described["TableStatus"] != "ACTIVE" or not _all_active(described):
        await _until_ready(table)


def _indexes(described: dict[str, Any]) -> dict[str, Any]:
    return {index["IndexName"]: index for index in described.get("GlobalSecondaryIndexes") or []}


def _all_active(described: dict[str, Any]) -> bool:
    return all(_indexes(described)[name].get("IndexStatus", "ACTIVE") == "ACTIVE" for name in KEYS_OF)


async def _add_index(table: Table, name: str) -> None:
    definitions = [{"AttributeName": key, "AttributeType": "S"} for key in KEYS_OF[name]]
    try:
        await table.call(
            "UpdateTable", AttributeDefinitions=definitions, GlobalSecondaryIndexUpdates=[{"Create": index(name)}]
        )
    except Refused as refused:
        if refused.code not in IN_WORK:
            raise
    await _until_ready(table, name)


async def _until_ready(table: Table, *names: str) -> None:
    for _ in range(int(PATIENCE / WAIT)):
        described = (await table.call("DescribeTable"))["Table"]
        there = _indexes(described)
        ready = all(there.get(name, {}).get("IndexStatus", "ACTIVE") == "ACTIVE" for name in names or KEYS_OF)
        if described["TableStatus"] == "ACTIVE" and ready:
            return
        await asyncio.sleep(WAIT)
    msg = f"{table.address.shown} is still being made. Try again in some minutes."
    raise StoreUnavailable(msg)


async def _settings(table: Table) -> int:
    """What everyone who uses these keys has to agree on: the first one writes it down."""
    address = table.address
    key = Keys(address.prefix).settings
    found = (await table.get([key])).get(key)
    if found is None:
        wanted = {"layout": FORMAT, "shards": address.shards or 1}
        try:
            await table.write(table.put(key, wanted))
            found = wanted
        except ConditionFailed as failed:
            found = failed.item or wanted
    if found["layout"] > FORMAT:
        msg = f"{address.shown} has layout {found['layout']}; this Tenure knows up to {FORMAT}. Upgrade this installation."
        raise StoreTooNew(msg)
    shards: int = found["shards"]
    if address.shards not in (None, shards):
        msg = f"{address.shown} was set up with {shards} shards, and the address says shards={address.shards}. Leave it out, or move the tasks to another prefix."
        raise StoreUnusable(msg)
    return shards
