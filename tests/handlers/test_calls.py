"""The calls to AWS that one job takes. Each new call is added here, with its reason."""

from functools import partial

from functions.dispatcher import lambda_handler as dispatcher
from functions.heartbeat import lambda_handler as heartbeat
from functions.settle import lambda_handler as settle
from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput
from tests.events import event
from tests.handlers.stack import Context, Stack


def test_start_takes_four_calls_of_which_one_serves_the_whole_batch(
    stack: Stack, context: Context
) -> None:
    assert stack.calls_of(partial(dispatcher, event("dispatcher", "new-job"), context)) == {
        "dynamodb.BatchGetItem": 1,  # the rows of all messages of the batch, and the slots
        "s3.PutObject": 1,  # the request, beside the row
        "dynamodb.TransactWriteItems": 1,  # the claim and its slot
        "stepfunctions.StartExecution": 1,
    }
    assert stack.calls_of(partial(dispatcher, event("dispatcher", "mixed-batch"), context)) == {
        "dynamodb.BatchGetItem": 1,
        "s3.PutObject": 3,
        "dynamodb.TransactWriteItems": 2,
        "stepfunctions.StartExecution": 2,
        "sqs.SendMessage": 2,  # a conflict's letter, and a refused job's: what follows is its own
        "dynamodb.PutItem": 1,
        "s3.GetObject": 1,
        "sqs.DeleteMessage": 1,
        "dynamodb.UpdateItem": 2,
    }


def test_beat_takes_three_calls(stack: Stack, context: Context) -> None:
    stack.claim()
    assert stack.calls_of(partial(heartbeat, event("heartbeat", "first-beat"), context)) == {
        "dynamodb.GetItem": 1,  # the row, which decides what to do
        "sqs.ChangeMessageVisibility": 1,
        "dynamodb.UpdateItem": 1,  # the lease's new end; refused if the job has settled
    }


def test_success_takes_four_calls_to_settle(stack: Stack, context: Context) -> None:
    lease = stack.claim()
    output = CommittedOutput(1, 0, 0, prefix="s3://longhaul-data/out/")
    stack.parts.leases.report(transitions.commit(lease.id, output))
    # The runner publishes what it commits.
    stack.parts.leases.report(transitions.mark_published(lease.id, lease.attempt.claimed_at))
    assert stack.calls_of(partial(settle, event("settle", "exit-0"), context)) == {
        "dynamodb.GetItem": 1,  # the row, which shows how the attempt ended
        "dynamodb.TransactWriteItems": 1,  # the outcome, and the slot back
        "sqs.DeleteMessage": 1,
        "dynamodb.UpdateItem": 1,  # the delete is no longer owed: no sweep reads the row again
    }
