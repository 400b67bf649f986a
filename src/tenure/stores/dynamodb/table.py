"""One table of DynamoDB: reads that decide are consistent, writes have conditions, nothing half-done is passed on."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.stores.aws import AwsClient, AwsUnavailable, Request
from tenure.stores.dynamodb.address import Address
from tenure.stores.dynamodb.keys import KEYS_OF, Key, split
from tenure.stores.dynamodb.trouble import Cancelled, ConditionFailed, Reason, refusal
from tenure.stores.dynamodb.wire import (
    Condition,
    Item,
    Words,
    absent,
    assigned,
    item_from_wire,
    item_to_wire,
    to_wire,
)

TARGET = "DynamoDB_20120810."
READ_AT_ONCE = 100
"""The most items that one request reads."""
TRIES = 30
"""How often a transaction that met another one is tried again."""
TRANSIENT = frozenset(
    {"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError", "InternalServerError"}
)  # fmt: skip
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode

Action = dict[str, Any]


class Table:
    """The requests that a store makes. `units` adds up what they cost, by operation."""

    def __init__(self, client: AwsClient, address: Address) -> None:
        self.client, self.address = client, address
        self.pk, self.sk = address.pk, address.sk
        self.units: Counter[str] = Counter()
        self._random = random.Random()  # noqa: S311 - spreads retries, guards nothing

    async def call(self, operation: str, **body: Any) -> dict[str, Any]:
        """One request about this table."""
        return await self.send(operation, {"TableName": self.address.table, **body})

    async def send(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request; a refusal is an error."""
        answer = await self.client.send(
            Request(
                operation,
                headers={"X-Amz-Target": TARGET + operation, "Content-Type": "application/x-amz-json-1.0"},
                body=_encode(body),
                read=_decode,
            )
        )
        if answer.ok:
            self._add_up(operation, answer.value.get("ConsumedCapacity"))
            value: dict[str, Any] = answer.value
            return value
        said = _said(answer.body)
        if answer.code == "ConditionalCheckFailedException":
            item = said.get("Item")
            raise ConditionFailed(item_from_wire(item) if item else None, repeated=answer.repeated)
        if answer.code == "TransactionCanceledException":
            reasons = said.get("CancellationReasons") or []
            raise Cancelled([_reason(reason) for reason in reasons])
        if answer.code == "TransactionConflictException":
            raise Cancelled([Reason("TransactionConflict")])
        raise refusal(answer.code, said.get("message") or said.get("Message") or "", self.address)

    def _add_up(self, operation: str, consumed: Any) -> None:
        for part in consumed if isinstance(consumed, list) else [consumed] if consumed else []:
            self.units[operation] += part.get("CapacityUnits", 0)

    # -- reading

    async def get(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """The items with these keys, as they are now."""
        wanted = list(dict.fromkeys(keys))
        found: dict[Key, Item] = {}
        for items in await asyncio.gather(*(self._get(part) for part in split(wanted, READ_AT_ONCE))):
            found |= {(item[self.pk], item[self.sk]): item for item in items}
        return found

    async def _get(self, keys: list[Key]) -> list[Item]:
        left: list[Any] = [self._key(key) for key in keys]
        found: list[Item] = []
        for attempt in range(TRIES):
            if attempt:
                await self.pause(attempt)
            answer = await self.send(
                "BatchGetItem",
                {
                    "RequestItems": {self.address.table: {"Keys": left, "ConsistentRead": True}},
                    "ReturnConsumedCapacity": "TOTAL",
                },
            )
            found += [item_from_wire(item) for item in answer["Responses"].get(self.address.table, [])]
            left = answer.get("UnprocessedKeys", {}).get(self.address.table, {}).get("Keys", [])
            if not left:
                return found
        msg = f"DynamoDB, {self.address.shown} left {len(left)} reads undone."
        raise AwsUnavailable(msg, may_have_taken_effect=False)

    async def walk(
        self,
        pk: str,
        *,
        index: str | None = None,
        above: str | None = None,
        up_to: str | None = None,
        below: str | None = None,
        forward: bool = True,
        page: int | None = None,
        only: Condition | None = None,
    ) -> AsyncIterator[list[Item]]:
        """The items of one partition in order, a page at a time. In the table itself the read is consistent."""
        names = (self.pk, self.sk) if index is None else KEYS_OF[index]
        words = Words()
        condition = f"{words.name(names[0])} = {words.value(pk)}"
        sort = words.name(names[1]) if any((above, up_to, below)) else ""
        if above is not None and up_to is not None:
            # BETWEEN includes its ends; nothing stands between a key and the same with a blank.
            condition += f" AND {sort} BETWEEN {words.value(above + ' ')} AND {words.value(up_to)}"
        elif above is not None:
            condition += f" AND {sort} > {words.value(above)}"
        elif up_to is not None:
            condition += f" AND {sort} <= {words.value(up_to)}"
        elif below is not None:
            condition += f" AND {sort} < {words.value(below)}"
        asked: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ScanIndexForward": forward,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if only is not None:
            asked["FilterExpression"] = only(words)
        asked |= words.explained()
        asked |= {"ConsistentRead": True} if index is None else {"IndexName": index}
        if page is not None:
            asked["Limit"] = page
        while True:
            answer = await self.call("Query", **asked)
            if answer["Items"]:
                yield [item_from_wire(item) for item in answer["Items"]]
            if not (last := answer.get("LastEvaluatedKey")):
                return
            asked["ExclusiveStartKey"] = last

    async def partition(self, pk: str, **how: Any) -> list[Item]:
        """All items of one partition."""
        return [item async for items in self.walk(pk, **how) for item in items]

    # -- writing

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> Action:
        """An action: write an item, as a rule if there is none."""
        words = Words()
        condition = condition or absent(self.pk)
        return {
            "Put": {
                "TableName": self.address.table,
                "Item": item_to_wire({self.pk: key[0], self.sk: key[1], **item}),
                "ConditionExpression": condition(words),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                **words.explained(),
            }
        }

    def update(
        self,
        key: Key,
        put: Mapping[str, Any] | None = None,
        *,
        condition: Condition | None = None,
        add: Mapping[str, int] | None = None,
        remove: Iterable[str] = (),
    ) -> Action:
        """An action: change attributes of an item."""
        words = Words()
        update: dict[str, Any] = {
            "TableName": self.address.table,
            "Key": self._key(key),
            "UpdateExpression": assigned(words, put or {}, add or {}, remove),
        }
        if condition is not None:
            update["ConditionExpression"] = condition(words)
            update["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return {"Update": update | words.explained()}

    def delete(self, key: Key, condition: Condition | None = None) -> Action:
        """An action: delete an item."""
        words = Words()
        delete: dict[str, Any] = {"TableName": self.address.table, "Key": self._key(key)}
        if condition is not None:
            delete["ConditionExpression"] = condition(words)
            delete["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return {"Delete": delete | words.explained()}

    async def write(self, action: Action, *, mine: str = "") -> Item | None:
        """Do one action alone; answers with the item as it is then, when that was asked for.

        A condition that fails because this very write took effect before, with its answer lost, is
        a success: the item has the mark `mine`, which no other write has.
        """
        ((kind, body),) = action.items()
        asked = {**body, "ReturnConsumedCapacity": "TOTAL"}
        if kind == "Update":
            asked["ReturnValues"] = "ALL_NEW"
        for attempt in range(TRIES):
            if attempt:
                await self.pause(attempt)
            try:
                answer = await self.send(f"{kind}Item", asked)
            except ConditionFailed as failed:
                if mine and failed.item is not None and failed.item.get("write") == mine:
                    return failed.item
                raise
            except Cancelled:
                continue
            changed = answer.get("Attributes")
            return item_from_wire(changed) if changed else None
        msg = f"DynamoDB, {self.address.shown}: others kept changing the same item."
        raise AwsUnavailable(msg, may_have_taken_effect=False)

    async def transact(self, actions: Sequence[Action]) -> None:
        """Do all actions or none. Sent again under the same token, a transaction takes effect once."""
        await self.send(
            "TransactWriteItems",
            {"TransactItems": list(actions), "ClientRequestToken": token(), "ReturnConsumedCapacity": "TOTAL"},
        )

    async def pause(self, attempt: int) -> None:
        """Wait before another attempt: longer each time, and by chance."""
        first, longest = self.client.pauses
        await asyncio.sleep(self._random.uniform(0, min(first * 2**attempt / 4, longest)))

    def _key(self, key: Key) -> dict[str, Any]:
        return {self.pk: to_wire(key[0]), self.sk: to_wire(key[1])}


def token() -> str:
    """A mark that no other write has."""
    return secrets.token_hex(8)


def _said(body: bytes) -> dict[str, Any]:
    try:
        said = _decode(body)
    except msgspec.DecodeError:
        return {}
    return said if isinstance(said, dict) else {}


def _reason(said: Mapping[str, Any]) -> Reason:
    item = item_from_wire(said["Item"]) if said.get("Item") else None
    return Reason(said.get("Code", "None"), item, said.get("Message") or "")
