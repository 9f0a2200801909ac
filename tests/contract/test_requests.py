"""`ports.Requests` on S3."""

import json
from dataclasses import asdict

import pytest
from botocore.exceptions import ClientError

from longhaul.core.errors import TooLargeError
from longhaul.core.message import Message
from longhaul.core.objects import S3Requests
from tests.contract.conftest import Aws

CONTENT = Message(
    '{"job": "é"}', {"job_id": {"dataType": "String", "stringValue": "january"}}, "tenant-1"
)


@pytest.fixture
def requests(aws: Aws) -> S3Requests:
    aws.client("s3").create_bucket(Bucket="data")
    return S3Requests(aws.client("s3"), "data")


def test_request_reads_back_as_put_even_when_put_twice(
    requests: S3Requests,
) -> None:
    requests.put("longhaul/requests/x/m-1.json", CONTENT)
    requests.put("longhaul/requests/x/m-1.json", CONTENT)
    assert requests.get("longhaul/requests/x/m-1.json") == CONTENT


def test_request_that_a_newer_version_wrote_is_read_without_what_is_new(
    aws: Aws, requests: S3Requests
) -> None:
    newer = json.dumps({**asdict(CONTENT), "priority": 1})
    aws.client("s3").put_object(Bucket="data", Key="longhaul/requests/x/m-3.json", Body=newer)
    assert requests.get("longhaul/requests/x/m-3.json") == CONTENT


def test_missing_request_is_an_error(requests: S3Requests) -> None:
    with pytest.raises(ClientError, match="NoSuchKey"):
        requests.get("longhaul/requests/x/m-2.json")


def test_what_a_job_emitted_is_not_read_where_it_takes_more_memory_than_a_function_has(
    aws: Aws, requests: S3Requests
) -> None:
    bomb = b'{"clean":[' + b"{}," * 1_000_000 + b"{}]}"
    aws.client("s3").put_object(Bucket="data", Key="longhaul/emitted/x.json", Body=bomb)
    with pytest.raises(TooLargeError, match=r"longhaul/emitted/x\.json"):
        requests.get_emitted("longhaul/emitted/x.json")


def test_python_s_own_parser_gets_no_text_that_would_be_too_long_once_it_is_decoded(
    requests: S3Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests.put_emitted("longhaul/emitted/x.json", {"clean": [{"job": "sql"}]})
    monkeypatch.setattr("longhaul.core.objects.MAX_DECODED_BYTES", 20)
    with pytest.raises(TooLargeError, match=r"longhaul/emitted/x\.json"):
        requests.get_emitted("longhaul/emitted/x.json")
