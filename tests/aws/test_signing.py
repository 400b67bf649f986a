"""Requests are signed as botocore signs them."""

from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tenure.stores.aws.access import Keys
from tenure.stores.aws.signing import signed, written

NOW = datetime(2026, 1, 28, 17, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("service", "method", "path", "query", "headers", "body", "token"),
    [
        ("dynamodb", "POST", "/", [], {"X-Amz-Target": "DynamoDB_20120810.PutItem"}, b'{"a": 1}', None),
        ("dynamodb", "POST", "/", [], {"Content-Type": "application/x-amz-json-1.0"}, b"", "a token"),
        ("s3", "GET", "/bucket", [("list-type", "2"), ("prefix", "a b/ü~"), ("start-after", "")], {}, b"", None),
        ("s3", "PUT", "/bucket/tasks/a%20b/%C3%BC~", [], {"If-None-Match": "*"}, b"{}", "t"),
        ("s3", "DELETE", "/bucket/x", [("versionId", "a=b&c")], {"If-Match": '"abc"'}, b"", None),
    ],
)
def test_a_signature_is_the_one_that_botocore_makes(service, method, path, query, headers, body, token):
    keys = Keys("AKID", "secret/+", token)
    made = signed(
        keys, service, "eu-central-1", NOW,
        method=method, host="localhost:8000", path=path, query=query, headers=headers, body=body,
    )  # fmt: skip
    asked = f"?{written(query)}" if query else ""
    request = AWSRequest(method, f"http://localhost:8000{path}{asked}", headers=headers, data=body)
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    with patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        signer(Credentials("AKID", "secret/+", token), service, "eu-central-1").add_auth(request)
    assert made["Authorization"] == request.headers["Authorization"]
