"""What is stored beside the rows: troubles, untold notices, backfills, and requests on S3."""

# `ports.Troubles` on DynamoDB: errors of our own code in a row.

import json
import random
from dataclasses import asdict
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from longhaul.core.aws_errors import is_raised_again
from longhaul.core.descent import TreeWatch
from longhaul.core.errors import (
    InvalidRequestError,
    LeaseChangedError,
    TooLargeError,
    UnreadableRowError,
)
from longhaul.core.message import Message
from longhaul.core.objects import S3Requests
from longhaul.core.queue import SendError
from longhaul.core.settings import UnknownStageError
from longhaul.core.settlement import MAX_ERRORS
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import DynamoTroubles, Records
from longhaul.notices.notice import Notice, Untold
from longhaul.notices.untold import DynamoUntold
from longhaul.operations.backfill import MAX_VALUES
from longhaul.pipelines.backfill import Backfill
from longhaul.pipelines.backfills import DynamoBackfills
from longhaul.pipelines.tree_ends import told, waiting
from simulation.aws.clock import VirtualClock
from simulation.aws.service import client_error
from tests.builders import NOW, there
from tests.contract.conftest import Aws


@pytest.fixture
def troubles(aws: Aws, table: str) -> DynamoTroubles:
    return DynamoTroubles(Records(aws.client("dynamodb"), table, aws.clock, random.Random(1)))


def counted(troubles: DynamoTroubles, times: int, place: str = "here", minutes: int = 5) -> bool:
    """The last of so many errors, each some minutes after the one before."""
    found = False
    for n in range(times):
        now = NOW + timedelta(minutes=minutes * n)
        found = troubles.is_hopeless("main#january", place, KeyError("x"), now)
    return found


def test_enough_errors_in_a_row_are_hopeless(troubles: DynamoTroubles) -> None:
    assert not counted(troubles, MAX_ERRORS - 1)
    assert troubles.is_hopeless("main#january", "here", ValueError(), NOW + timedelta(minutes=50))


def test_errors_at_another_place_are_counted_apart(troubles: DynamoTroubles) -> None:
    counted(troubles, MAX_ERRORS - 1)
    assert not counted(troubles, MAX_ERRORS - 1, "there")
    assert counted(troubles, 1)


def test_errors_that_are_hours_apart_begin_anew(troubles: DynamoTroubles) -> None:
    assert not counted(troubles, 2 * MAX_ERRORS, minutes=61)


def aws_error(code: str, text: str = "", status: int = 400) -> ClientError:
    return client_error(code, text, "Anything", status=status)


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        # The same work would raise it again.
        *(
            (each, True)
            for each in (
                KeyError("x"),
                RecursionError(),
                AssertionError(),
                InvalidRequestError(["x"]),
                ParamValidationError(report="x"),
                aws_error("ValidationException"),
                aws_error("InvalidParameterValue", "One or more parameters are invalid."),
                aws_error("AWS.SimpleQueueService.BatchRequestTooLong"),
                aws_error("NoSuchKey", status=404),
                *map(
                    aws_error,
                    [
                        "InvalidParameterException",
                        "InvalidMessageContents",
                        "InvalidAttributeValue",
                        "MessageTooLong",
                        "InvalidArgument",
                        "InvalidName",
                        "InvalidExecutionInput",
                        "EntityTooLarge",
                        "KeyTooLongError",
                    ],
                ),
            )
        ),
        # It is no fault of the work.
        *(
            (each, False)
            for each in (
                aws_error("ThrottlingException"),
                aws_error("ProvisionedThroughputExceededException"),
                aws_error("InternalFailure", status=500),
                aws_error("SlowDown", status=503),
                aws_error("AccessDenied", status=403),
                aws_error("ExpiredToken", status=403),
                aws_error("ResourceNotFoundException"),
                aws_error("InvalidParameterException", "Rate exceeded"),
                aws_error("TransactionConflictException"),
                EndpointConnectionError(endpoint_url="https://sqs"),
                LeaseChangedError(None),
                UnreadableRowError("main#january"),
                UnknownStageError("no stage"),
                SendError("SQS did not take 1 messages: InternalError"),
                TimeoutError(),
                MemoryError(),
            )
        ),
    ],
    ids=repr,
)
def test_an_error_counts_if_the_same_work_would_raise_it_again(
    error: Exception, *, counts: bool
) -> None:
    assert is_raised_again(error) is counts


def test_an_error_that_does_not_count_is_not_written(aws: Aws, troubles: DynamoTroubles) -> None:
    for _ in range(3 * MAX_ERRORS):
        assert not troubles.is_hopeless("main#january", "here", TimeoutError(), NOW)
    key = {"key": {"S": "main#january"}, "item": {"S": "trouble"}}
    assert "Item" not in aws.client("dynamodb").get_item(
        TableName="leases", Key=key, ConsistentRead=True
    )


# `ports.UntoldNotices` on DynamoDB.


ONE, OTHER = Notice("1", "main#a", "{}"), Notice("2", "main#b", '{"job_id": "b"}', "Other")


@pytest.fixture
def untold(aws: Aws, table: str) -> DynamoUntold:
    return DynamoUntold(
        Records(aws.client("dynamodb"), table, VirtualClock(), random.Random(0), most=1)
    )


def test_a_stage_owes_its_notices_until_they_are_struck_off(untold: DynamoUntold) -> None:
    untold.owe("main", ONE, NOW)
    untold.owe("main", OTHER, NOW)
    untold.owe("clean", ONE, NOW)
    owed = sorted(untold.owed("main"), key=lambda each: each.notice.id)
    assert owed == [Untold("main", ONE, NOW), Untold("main", OTHER, NOW)]
    untold.strike(owed[0])
    assert list(untold.owed("main")) == [owed[1]]
    assert list(untold.owed("clean")) == [Untold("clean", ONE, NOW)]


# `ports.Backfills` on DynamoDB.


KEY = "main#october"
SECOND = timedelta(seconds=1)


@pytest.fixture
def backfills(aws: Aws, table: str) -> DynamoBackfills:
    return DynamoBackfills(
        Records(aws.client("dynamodb"), table, VirtualClock(), random.Random(0), most=100)
    )


def test_what_is_sent_is_known_once_and_in_order(backfills: DynamoBackfills) -> None:
    assert backfills.find_backfills([KEY]) == {}
    assert backfills.note_begun(KEY, ["02", "01", "03", "04"], NOW, NOW)
    assert backfills.find_backfills([KEY])[KEY].unsent == 4
    backfills.note_sent(KEY, ["02", "01"], NOW)
    backfills.note_sent(KEY, ["03", "02"], NOW)
    found = backfills.find_backfills([KEY, "main#november", KEY])
    assert found == {KEY: Backfill(KEY, ("01", "02", "03"), ("04",), began_at=NOW)}
    assert next(found[KEY].job_keys()) == "main#october/01"
    assert (found[KEY].stage, found[KEY].name) == ("main", "october")
    backfills.note_sent(KEY, ["04"], NOW)
    assert backfills.find_backfills([KEY])[KEY].left == ()


def test_commands_have_left_what_no_other_has_sent(backfills: DynamoBackfills) -> None:
    assert backfills.note_begun(KEY, ["01", "02", "03"], NOW, NOW)
    assert backfills.note_begun(KEY, ["02", "04"], NOW, NOW + SECOND)
    backfills.note_sent(KEY, ["02"], NOW)
    assert backfills.find_backfills([KEY])[KEY].left == ("01", "03", "04")


def test_a_command_that_began_before_a_cancel_sends_no_more(backfills: DynamoBackfills) -> None:
    assert backfills.note_begun(KEY, ["01", "02"], NOW, NOW)
    backfills.note_cancel(KEY, NOW + SECOND)
    found = backfills.find_backfills([KEY])[KEY]
    assert (found.is_sending, found.unsent) == (False, 2)
    assert not backfills.note_begun(KEY, ["03"], NOW, NOW)
    backfills.note_sent(KEY, ["01"], NOW)  # it was sent all the same
    for began_at in (NOW + 2 * SECOND, NOW + 3 * SECOND):
        assert backfills.note_begun(KEY, [f"{began_at.second:02}"], NOW, began_at)
    found = backfills.find_backfills([KEY])[KEY]
    began = [f"{(NOW + n * SECOND).second:02}" for n in (2, 3)]
    assert (found.is_sending, found.values, found.left) == (True, ("01",), tuple(began))


def test_of_what_was_sent_again_the_latest_time_is_known_until_its_end_is_told(
    backfills: DynamoBackfills,
) -> None:
    for at in (NOW + SECOND, NOW):
        backfills.note_sent(KEY, ["01", "02"], NOW, {"01": at}, watches=True)
    found = backfills.find_backfills([KEY])[KEY]
    assert (found.values, found.again) == (("01", "02"), {"01": NOW + SECOND})
    assert found.watch is not None
    assert backfills.note_look(KEY, found.watch, told(found.watch))
    assert backfills.find_backfills([KEY])[KEY].again == {}


def test_of_what_is_sent_once_more_the_earlier_time_goes(backfills: DynamoBackfills) -> None:
    """Else a set of an item that is bounded would grow with each command."""
    backfills.note_sent(KEY, ["01", "02"], NOW, {"01": NOW, "02": NOW})
    known = backfills.find_backfills([KEY])[KEY]
    assert backfills.note_begun(KEY, ["01"], NOW, NOW, {"01": known.again["01"]})
    assert backfills.find_backfills([KEY])[KEY].again == {"02": NOW}


def test_the_largest_backfill_has_room(backfills: DynamoBackfills) -> None:
    values = [f"{n:032}" for n in range(MAX_VALUES)]
    backfills.note_sent(KEY, values, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == tuple(values)


def test_a_watch_is_raised_with_what_is_sent_and_noted_once(
    backfills: DynamoBackfills, aws: Aws, table: str
) -> None:
    leases = DynamoLeases(Records(aws.client("dynamodb"), table, aws.clock, random.Random(1)))

    def watch() -> TreeWatch:
        return there(backfills.find_backfills([KEY])[KEY].watch)

    backfills.note_sent(KEY, ["01"], NOW, watches=True)
    first = watch()
    assert first == TreeWatch(1)
    assert list(leases.open_keys("main", "BACKFILL")) == [KEY]
    assert list(leases.open_keys("main", "TREE")) == []
    assert backfills.note_look(KEY, first, waiting(first, f"{KEY}/01"))
    assert watch() == TreeWatch(1, waits_for=f"{KEY}/01")
    backfills.watch_again(KEY, f"{KEY}/other", NOW)
    assert watch().ends == 1
    backfills.watch_again(KEY, f"{KEY}/01", NOW)
    assert watch() == TreeWatch(2)
    assert not backfills.note_look(KEY, first, told(first))
    second = watch()
    assert backfills.note_look(KEY, watch(), told(watch()))
    assert watch() == TreeWatch(2, told=2)
    assert not backfills.note_look(KEY, second, told(second))
    assert list(leases.open_keys("main", "BACKFILL")) == []
    backfills.note_sent(KEY, ["02"], NOW, watches=True)
    assert watch() == TreeWatch(3, told=2)
    assert list(leases.open_keys("main", "BACKFILL")) == [KEY]


def test_one_that_is_not_there_is_not_watched(backfills: DynamoBackfills) -> None:
    backfills.watch_again(KEY, f"{KEY}/01", NOW)
    assert not backfills.note_look(KEY, TreeWatch(1), told(TreeWatch(1)))
    assert backfills.find_backfills([KEY]) == {}


# `ports.Requests` on S3.


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
