"""The client of programs with the whole system: jobs are submitted, waited for and read."""

import json

import boto3
import pytest

from longhaul.client import Client, JobDeadError
from tests.e2e.conftest import DEADLINE_S, Stack


def request(stack: Stack, name: str, query: str) -> dict[str, object]:
    return {
        "job": "sql",
        "output": f"s3://{stack.bucket}/client/{name}/",
        "params": {"query": query, "format": "json"},
    }


def test_a_program_submits_jobs_waits_for_them_and_reads_their_output(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a user points boto3 at it.
    monkeypatch.setenv("AWS_ENDPOINT_URL", stack.aws.endpoint)
    client = Client(session=boto3.Session(region_name=stack.aws.region))
    good, bad = client.submit_many(
        [request(stack, "good", "SELECT 1 AS n"), request(stack, "bad", "SELECT no_such_column")]
    )

    result = client.result(good, timeout=DEADLINE_S)

    assert (result.output, result.status.attempt) == (f"s3://{stack.bucket}/client/good/", 1)
    s3 = stack.client("s3")
    rows = []
    for file in result.files:
        bucket, _, key = file.url.removeprefix("s3://").partition("/")
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert len(body) == file.size
        rows += [json.loads(line) for line in body.splitlines()]
    assert rows == [{"n": 1}]
    with pytest.raises(JobDeadError, match="no_such_column") as dead:
        client.result(bad.job_id, timeout=DEADLINE_S)
    assert dead.value.status.kind == "permanent"
    assert client.cancel(good).state == "SUCCEEDED"
