"""Conditional puts to a DynamoDB server of one's own: this project's client beside aiobotocore.

python bench/aws_client.py            # aiobotocore only if it is installed
"""

import asyncio
import contextlib
import os
import time

import msgspec

from tenure.stores.aws import Access, AwsClient, Request
from tenure.testing.aws import Dynoxide, Ministack

SECONDS = 3.0
TABLE = {
    "TableName": "bench",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
}


def put(number):
    return {
        "TableName": "bench",
        "Item": {"pk": {"S": f"{os.urandom(8).hex()}-{number}"}, "payload": {"S": "x" * 200}},
        "ConditionExpression": "attribute_not_exists(pk)",
    }


@contextlib.asynccontextmanager
async def ours(endpoint):
    client = AwsClient(Access("dynamodb", region="us-east-1", endpoint=endpoint))

    async def call(operation, **body):
        headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "Content-Type": "application/x-amz-json-1.0"}
        answer = await client.send(
            Request(operation, headers=headers, body=msgspec.json.encode(body), read=msgspec.json.decode)
        )
        assert answer.ok, answer.body

    yield call
    await client.close()


@contextlib.asynccontextmanager
async def aiobotocore(endpoint):
    from aiobotocore.config import AioConfig
    from aiobotocore.session import get_session

    config = AioConfig(max_pool_connections=64)
    async with get_session().create_client("dynamodb", "us-east-1", endpoint_url=endpoint, config=config) as client:
        calls = {"PutItem": client.put_item, "CreateTable": client.create_table, "DeleteTable": client.delete_table}
        yield lambda operation, **body: calls[operation](**body)


async def rate(call, in_flight):
    done, end = 0, time.perf_counter() + SECONDS

    async def work():
        nonlocal done
        while time.perf_counter() < end:
            await call("PutItem", **put(done))
            done += 1

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return f"{done / (time.perf_counter() - start):5.0f}/s, {(time.process_time() - cpu) / done * 1e6:4.0f} us of CPU"


async def main():
    for server_kind in (Dynoxide, Ministack):
        for client_kind in (ours, aiobotocore):
            with server_kind() as server:
                try:
                    async with client_kind(server.endpoint) as call:
                        await call("CreateTable", **TABLE)
                        one, many = await rate(call, 1), await rate(call, 32)
                except ModuleNotFoundError:
                    continue
                print(f"{server_kind.__name__:10} {client_kind.__name__:12} alone {one}; 32 in flight {many}")


if __name__ == "__main__":
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    asyncio.run(main())
