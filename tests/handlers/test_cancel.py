from dataclasses import replace
from datetime import timedelta

from functions.dispatcher import lambda_handler as dispatcher
from functions.heartbeat import lambda_handler as heartbeat
from functions.settle import lambda_handler as settle
from longhaul.cancel import Canceller
from longhaul.domain.lease import Lease, State
from tests.events import event
from tests.handlers.conftest import Context, Stack


def cancel(stack: Stack) -> Lease:
    return Canceller(stack.parts.clock, stack.parts.leases, stack.parts.finisher).cancel("main", "flights-2013-01")


def test_a_queued_job_ends_when_its_message_comes(stack: Stack, context: Context) -> None:
    assert cancel(stack).is_mark
    assert dispatcher(event("dispatcher", "new-job"), context) == {"batchItemFailures": []}
    assert (stack.row().state, stack.row().owed) == (State.CANCELLED, ())
    assert stack.executions() == []


def test_the_mark_of_a_queued_job_does_not_trouble_the_sweeper_and_ends_by_itself(stack: Stack) -> None:
    cancel(stack)
    assert list(stack.parts.leases.open_keys("main", "RELEASED")) == []
    item = stack.parts.leases._client.get_item(
        TableName=stack.settings.leases_table, Key={"key": {"S": "main#flights-2013-01"}, "item": {"S": "lease"}}
    )["Item"]
    assert "ttl" in item


def test_a_cancelled_job_can_be_submitted_again(stack: Stack, context: Context) -> None:
    cancel(stack)
    dispatcher(event("dispatcher", "new-job"), context)
    dispatcher(event("dispatcher", "corrected-resubmission"), context)
    assert (stack.row().state, stack.row().attempt) == (State.RUNNING, 1)


def test_a_running_job_is_ended_by_its_next_beat_and_deleted(stack: Stack, context: Context) -> None:
    stack.claim()
    assert cancel(stack).state is State.RUNNING
    assert heartbeat(event("heartbeat", "first-beat"), context)["next"] == "JobCancelled"
    assert settle(event("settle", "cancelled"), context) == {"outcome": "CANCELLED"}
    assert stack.messages() == (0, 0)


def test_a_running_job_that_is_cancelled_ends_cancelled_even_if_its_task_is_said_to_have_failed(
    stack: Stack, context: Context
) -> None:
    stack.claim()
    cancel(stack)
    assert settle(event("settle", "exit-75-told-to-stop"), context) == {"outcome": "CANCELLED"}


def test_a_job_between_attempts_ends_at_once(stack: Stack) -> None:
    lease = stack.claim()
    retry_at = stack.parts.clock.now() + timedelta(minutes=5)
    stack.parts.leases.settle(lease, replace(lease, state=State.RELEASED, settled_attempt=1, retry_at=retry_at))
    assert cancel(stack).state is State.CANCELLED
    assert stack.row().is_finished
    assert stack.messages() == (0, 0)


def test_a_job_that_has_ended_stays_as_it_is(stack: Stack) -> None:
    lease = stack.claim()
    stack.parts.leases.settle(lease, replace(lease, state=State.SUCCEEDED, settled_attempt=1))
    assert cancel(stack).state is State.SUCCEEDED
    assert stack.row().cancel_requested_at is None
