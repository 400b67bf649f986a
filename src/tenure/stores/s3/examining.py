"""What an operator should know about a bucket."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tenure.errors import StoreUnusable
from tenure.stores.base import Concern
from tenure.stores.s3.bucket import Bucket
from tenure.stores.s3.layout import test_conditions
from tenure.stores.s3.reservations import FOLDER

_NAMESPACE = re.compile(rb'\sxmlns="[^"]*"')


async def about(bucket: Bucket, shards: int) -> dict[str, str]:
    """Facts."""
    facts = {
        "place": bucket.address.shown,
        "server": (await bucket.client.access.place()).endpoint,
        "shards": str(shards),
        "versioning": (await _versioning(bucket)).lower(),
        "clock uncertainty": f"{bucket.client.clock.uncertainty:.3f} s",
    }
    rules = await _rules(bucket)
    facts["lifecycle rules"] = str(len(rules)) if rules is not None else "cannot be read"
    return facts


async def concerns(bucket: Bucket) -> list[Concern]:
    """Conditions that the server does not keep, rules that delete, versions that pile up."""
    found = []
    try:
        await test_conditions(bucket)
    except StoreUnusable as error:
        found.append(Concern("conditional writes", str(error), "Do not use this bucket for a queue.", is_problem=True))
    if await _versioning(bucket) == "Enabled":
        found.append(
            Concern(
                "versioning",
                "every change of a task leaves an old version behind, which is paid for",
                "Add a lifecycle rule that deletes noncurrent versions after a day, or suspend versioning.",
            )
        )
    rules = await _rules(bucket)
    if rules is None:
        found.append(
            Concern(
                "lifecycle rules",
                "the credentials may not read them (s3:GetLifecycleConfiguration)",
                "Make sure that no rule deletes what is under this prefix.",
            )
        )
    for rule, prefix in rules or []:
        own, records = bucket.address.key(""), bucket.address.key(FOLDER)
        if prefix.startswith(records):
            continue
        if own.startswith(prefix) or prefix.startswith(own):
            found.append(
                Concern(
                    "lifecycle rules",
                    f"rule {rule!r} deletes objects under {prefix or 'the whole bucket'!r}: tasks would be lost",
                    f"Limit the rule to other prefixes; only {records} may be cleared by age.",
                    is_problem=True,
                )
            )
    return found


async def _versioning(bucket: Bucket) -> str:
    answer = await bucket.ask("GET", ("versioning", ""))
    if not answer.ok:
        return "unknown"
    return ET.fromstring(_NAMESPACE.sub(b"", answer.body)).findtext("Status") or "Off"  # noqa: S314 - the trusted server


async def _rules(bucket: Bucket) -> list[tuple[str, str]] | None:
    """The enabled rules that delete current objects, each with its prefix; None when they may not be read."""
    answer = await bucket.ask("GET", ("lifecycle", ""))
    if answer.status == 404:
        return []
    if not answer.ok:
        return None
    deleting = []
    for rule in ET.fromstring(_NAMESPACE.sub(b"", answer.body)).iter("Rule"):  # noqa: S314 - the trusted server
        if rule.findtext("Status") == "Enabled" and rule.find("Expiration") is not None:
            prefix = next((each.text or "" for each in rule.iter("Prefix")), "")
            deleting.append((rule.findtext("ID") or "without a name", prefix))
    return deleting
