"""A rollback while jobs run: a newer version's rows have attributes that this one does not know."""

from typing import Any

import pytest

from functions import heartbeat, settle
from longhaul.core.lease import State
from tests.events import event
from tests.handlers.stack import Context, Stack, forget_runtimes

KEY = {"key": {"S": "main#flights-2013-01"}, "item": {"S": "lease"}}
FUTURE = {"colour": {"S": "green"}, "weights": {"M": {"a": {"N": "1"}}}}
FAILED = {**event("settle", "exit-1")}


def item(stack: Stack) -> dict[str, Any]:
    return stack.aws.dynamodb.get_item(TableName=stack.settings.leases_table, Key=KEY)["Item"]


def rewrite(stack: Stack, changed: dict[str, Any]) -> None:
    stack.aws.dynamodb.put_item(TableName=stack.settings.leases_table, Item=changed)


@pytest.fixture(autouse=True)
def row(stack: Stack) -> None:
    """Claim a job and rewrite its row as a newer version would have written it."""
    stack.claim(attempt=1)
    rewrite(stack, item(stack) | FUTURE)
    forget_runtimes()


def test_job_of_another_version_beats(stack: Stack, context: Context) -> None:
    answer = heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    assert (answer["next"], stack.row().attempt.beats) == ("wait", 1)
    assert item(stack).items() >= FUTURE.items(), "unknown attributes stay"


def test_job_of_another_version_is_settled_as_released(stack: Stack, context: Context) -> None:
    assert settle.lambda_handler(FAILED, context)["outcome"] == "RELEASED"
    assert (stack.row().state, stack.row().failures, stack.free_slots()) == (
        State.RELEASED,
        1,
        stack.settings.stages[0].slots,
    )
    assert item(stack).items() >= FUTURE.items()


def test_results_have_the_keys_that_running_executions_read(context: Context) -> None:
    """An execution keeps the definition it started with. Its result selectors name these keys."""
    assert {"next", "wait_s", "cause"} <= set(
        heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    )
    assert {"outcome"} <= set(settle.lambda_handler(FAILED, context))
