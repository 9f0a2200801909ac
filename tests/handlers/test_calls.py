"""The calls to AWS that one job takes. Each new call is added here, with its reason."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from functions.dispatcher import lambda_handler as dispatcher
from functions.heartbeat import lambda_handler as heartbeat
from functions.settle import lambda_handler as settle
from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput
from simulation.aws.cloud import FakeAws
from tests.events import event
from tests.handlers.stack import Context, Stack

pytestmark = pytest.mark.usefixtures("stack")


@pytest.fixture
def calls(aws: FakeAws) -> Any:
    @contextmanager
    def counting() -> Iterator[Counter[str]]:
        counted: Counter[str] = Counter()
        before = aws.gate.counts.copy()
        yield counted
        for name, count in (aws.gate.counts - before).items():
            counted[name.partition(".")[2]] = count

    return counting


def test_start_takes_four_calls_of_which_one_serves_the_whole_batch(
    context: Context, calls: Any
) -> None:
    with calls() as counted:
        dispatcher(event("dispatcher", "new-job"), context)
    assert counted == {
        "BatchGetItem": 1,  # the rows of all messages of the batch, and the slots
        "PutObject": 1,  # the request, beside the row
        "TransactWriteItems": 1,  # the claim and its slot
        "StartExecution": 1,
    }
    with calls() as counted:
        dispatcher(event("dispatcher", "mixed-batch"), context)
    assert counted == {
        "BatchGetItem": 1,
        "PutObject": 3,
        "TransactWriteItems": 2,
        "StartExecution": 2,
        "SendMessage": 2,  # a conflict's letter, and a refused job's: what follows is its own
        "PutItem": 1,
        "GetObject": 1,
        "DeleteMessage": 1,
        "UpdateItem": 2,
    }


def test_beat_takes_three_calls(stack: Stack, context: Context, calls: Any) -> None:
    stack.claim()
    with calls() as counted:
        heartbeat(event("heartbeat", "first-beat"), context)
    assert counted == {
        "GetItem": 1,  # the row, which decides what to do
        "ChangeMessageVisibility": 1,
        "UpdateItem": 1,  # the lease's new end; refused if the job has settled
    }


def test_success_takes_four_calls_to_settle(stack: Stack, context: Context, calls: Any) -> None:
    lease = stack.claim()
    output = CommittedOutput(1, 0, 0, prefix="s3://longhaul-data/out/")
    stack.parts.leases.report(transitions.commit(lease.id, output))
    # The runner publishes what it commits.
    stack.parts.leases.report(transitions.mark_published(lease.id, lease.attempt.claimed_at))
    with calls() as counted:
        settle(event("settle", "exit-0"), context)
    assert counted == {
        "GetItem": 1,  # the row, which shows how the attempt ended
        "TransactWriteItems": 1,  # the outcome, and the slot back
        "DeleteMessage": 1,
        "UpdateItem": 1,  # the delete is no longer owed: no sweep reads the row again
    }
