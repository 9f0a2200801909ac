"""What a benchmark on the embedded stack sends, sees and says."""

import json
import os
from pathlib import Path

import pytest

from benchmarks import timed_work
from benchmarks.embedded_scale import lateness
from benchmarks.embedded_stack import Call, parse_call

SIGNED = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/{}/aws4_request, SignedHeaders=host"


def test_the_first_attempt_fails_and_the_second_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events"
    monkeypatch.setenv(timed_work.EVENTS, str(file))
    body = timed_work.Work("a", 1, first_s=2, fails=True).to_json()
    slept: list[float] = []

    with pytest.raises(timed_work.WorkError):
        timed_work.do(body, slept.append)
    timed_work.do(body, slept.append)

    assert slept == [2, 1]

    assert [each["event"] for each in timed_work.events(file)] == ["begin", "fail", "begin", "end"]
    assert {each["pid"] for each in timed_work.events(file)} == {os.getpid()}


@pytest.mark.parametrize(
    ("service", "target", "body", "expected"),
    [
        (
            "sqs",
            "AmazonSQS.DeleteMessage",
            json.dumps({"QueueUrl": "http://x/1/jobs"}),
            ("sqs", "DeleteMessage", "jobs"),
        ),
        (
            "sqs",
            "",
            "Action=DeleteMessage&QueueUrl=http%3A%2F%2Fx%2F1%2Fjobs",
            ("sqs", "DeleteMessage", "jobs"),
        ),
        ("s3", "", "Action=mine", ("s3", "", "")),
    ],
    ids=["JSON", "query", "another service"],
)
def test_a_call_is_told_by_its_signature(
    service: str, target: str, body: str, expected: tuple[str, str, str]
) -> None:
    environ = {"HTTP_AUTHORIZATION": SIGNED.format(service), "HTTP_X_AMZ_TARGET": target}

    call = parse_call(environ, body.encode())

    assert (call.service, call.operation, call.queue) == expected


def test_a_beat_is_late_by_what_passes_the_interval_that_the_one_before_announced() -> None:
    def beat(handle: str, at: float, visibility_s: int) -> Call:
        body = {"ReceiptHandle": handle, "VisibilityTimeout": visibility_s}
        return Call("sqs", "ChangeMessageVisibility", "jobs", at, body)

    # 85 s are 1.25 times an interval of 20 s, and a margin of 60 s.
    calls = [
        beat("a", 0, 85),
        beat("b", 5, 85),
        Call("sqs", "DeleteMessage", "jobs", 6),
        beat("a", 20, 85),
        beat("b", 35, 85),
        beat("a", 70, 85),
    ]

    assert lateness(calls) == [0, 1.5, 0.5]
