"""Calls of AWS that only the console makes."""

import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.dead_letter import Reason, dead_letter
from longhaul.core.message import Message
from longhaul.core.queue import SqsQueue
from longhaul.operations.dead_letters import DeadLetterOffice, Which
from longhaul.operations.letter import redriven
from longhaul.operations.logs import LogCursor, LogReader, LogStream
from simulation.aws.clock import VirtualClock
from simulation.aws.console import FakeLogs
from simulation.aws.service import Gate, client_error
from simulation.aws.shapes import checked
from tests.builders import stage
from tests.contract.conftest import Aws
from tests.contract.moto_account import moto_account

TEXT = {"dataType": "String", "stringValue": "x"}
BINARY = {"dataType": "Binary.png", "binaryValue": "AAH/"}


@pytest.fixture
def url(aws: Aws) -> str:
    return str(aws.client("sqs").create_queue(QueueName="letters")["QueueUrl"])


def test_batch_returns_a_result_for_each_message(aws: Aws, url: str) -> None:
    messages = [Message(f"body {n}", {"a": TEXT}) for n in range(10)]
    results = SqsQueue(aws.client("sqs")).send_batch(url, messages)
    assert len({result.message_id for result in results}) == 10
    assert not any(result.again for result in results)


@pytest.mark.parametrize(
    ("code", "status", "again"),
    [("Throttling", 400, True), ("Boom", 503, True), ("Denied", 403, False)],
)
def test_batch_with_an_unknown_result_is_to_be_sent_again(
    code: str, status: int, *, again: bool
) -> None:
    class Broken:
        def send_message_batch(self, **_: Any) -> None:
            raise client_error(code, "no", "SendMessageBatch", status=status)

    broken: Any = Broken()
    if again:
        assert [
            each.again for each in SqsQueue(broken).send_batch("queue", [Message("x", {})] * 3)
        ] == [True] * 3
    else:
        with pytest.raises(ClientError):
            SqsQueue(broken).send_batch("queue", [Message("x", {})])


def test_dead_letter_reads_back_as_sent_and_is_visible_again_when_released(
    aws: Aws, url: str
) -> None:
    content = Message('{"job": "x"}', {"a": TEXT, "b": BINARY})
    SqsQueue(aws.client("sqs")).send(
        url, dead_letter(content, Reason("failed", "why", key="main#j", attempts=2))
    )
    stage_, queue = stage(dead_letter_queue_url=url), SqsQueue(aws.client("sqs"))
    office = DeadLetterOffice(aws.clock, queue, aws.client("sqs"))
    assert office.waiting(stage_) == 1
    look = office.look(stage_, Which())
    letter = next(look)
    assert (letter.kind, letter.job_id, letter.reason and letter.reason.attempts) == (
        "failed",
        "j",
        2,
    )
    assert redriven(letter) == Message(
        content.body, {**content.attributes, "job_id": {"dataType": "String", "stringValue": "j"}}
    )
    assert [*office.look(stage_, Which())] == []
    look.close()
    assert [why for _, why in office.drop(stage_, Which())] == [None]
    assert office.waiting(stage_) == 0


@pytest.fixture(params=["strict", "moto"])
def logs(request: pytest.FixtureRequest) -> Any:
    """A group `jobs` of two streams, of three lines and of one."""
    if request.param == "strict":
        fake = FakeLogs(Gate(checked), VirtualClock().now)
        fake.write("jobs", "one", "a", "token-7-1 begins", "c")
        fake.write("jobs", "two", "token-7-12 begins")
        yield fake
        return
    with moto_account() as client_of:
        client = client_of("logs")
        client.create_log_group(logGroupName="jobs")
        for stream, lines in (
            ("one", ["a", "token-7-1 begins", "c"]),
            ("two", ["token-7-12 begins"]),
        ):
            client.create_log_stream(logGroupName="jobs", logStreamName=stream)
            events: Any = [
                {"timestamp": round(time.time() * 1000), "message": line} for line in lines
            ]
            client.put_log_events(logGroupName="jobs", logStreamName=stream, logEvents=events)
        yield client


def test_stream_is_read_to_its_end_and_on_from_there(logs: Any) -> None:
    cursor = LogCursor(LogReader(logs, "jobs"), LogStream("one"))
    assert [event.text for event in cursor.read_on()] == ["a", "token-7-1 begins", "c"]
    assert cursor.token is not None
    assert cursor.read_on() == []


def test_tail_of_a_stream_is_its_last_lines_in_order(logs: Any) -> None:
    reader, one = LogReader(logs, "jobs"), LogStream("one")
    assert [event.text for event in reader.tail(one, 2)] == ["token-7-1 begins", "c"]
    assert len(reader.tail(one, 50)) == 3


def test_missing_stream_has_no_lines(logs: Any) -> None:
    reader, none = LogReader(logs, "jobs"), LogStream("three")
    assert (reader.tail(none, 50), LogCursor(reader, none).read_on()) == ([], [])


def test_stream_is_found_by_a_line_in_it(logs: Any) -> None:
    reader, since = LogReader(logs, "jobs"), datetime.fromtimestamp(0, UTC)
    assert reader.find_stream("token-", re.compile("-12 "), since) == "two"
    assert reader.find_stream("token-", re.compile("-13 "), since) is None
