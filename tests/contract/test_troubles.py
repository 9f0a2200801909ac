"""`ports.Troubles` on DynamoDB: errors of our own code in a row."""

import random
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from longhaul.core.aws_errors import is_raised_again
from longhaul.core.errors import InvalidRequestError, LeaseChangedError, UnreadableRowError
from longhaul.core.queue import SendError
from longhaul.core.settings import UnknownStageError
from longhaul.core.settlement import MAX_ERRORS
from longhaul.core.store.records import DynamoTroubles, Records
from simulation.aws.service import client_error
from tests.builders import NOW
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


def test_jobs_are_counted_apart(troubles: DynamoTroubles) -> None:
    counted(troubles, MAX_ERRORS - 1)
    assert not troubles.is_hopeless("main#february", "here", KeyError("x"), NOW)


def aws_error(code: str, text: str = "", status: int = 400) -> ClientError:
    return client_error(code, text, "Anything", status=status)


@pytest.mark.parametrize(
    "error",
    [
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
    ],
    ids=repr,
)
def test_what_the_same_work_would_raise_again_counts(error: Exception) -> None:
    assert is_raised_again(error)


@pytest.mark.parametrize(
    "error",
    [
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
    ],
    ids=repr,
)
def test_what_is_no_fault_of_the_work_never_counts(error: Exception) -> None:
    assert not is_raised_again(error)


def test_an_error_that_does_not_count_is_not_written(aws: Aws, troubles: DynamoTroubles) -> None:
    for _ in range(3 * MAX_ERRORS):
        assert not troubles.is_hopeless("main#january", "here", TimeoutError(), NOW)
    key = {"key": {"S": "main#january"}, "item": {"S": "trouble"}}
    assert "Item" not in aws.client("dynamodb").get_item(TableName="leases", Key=key)
