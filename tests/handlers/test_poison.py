"""Messages and rows on which our own code fails: they become dead letters, and nothing circles.

An outage is no fault of a message: it never counts.
"""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from botocore.exceptions import ClientError

from longhaul.core.lease import State
from longhaul.core.settlement import MAX_ERRORS
from simulation.aws.service import Call, client_error, lost_answer, throttle, unavailable
from tests.faults import denied, failing
from tests.handlers.life import JOB, Life
from tests.handlers.stack import Stack


def refused(call: Call) -> ClientError:
    return client_error("ValidationException", "One or more values are invalid", call.operation)


def defect(call: Call) -> Exception:
    return KeyError(call.operation)


def again_and_again(stack: Stack, act: Callable[[], object], times: int = MAX_ERRORS) -> None:
    for _ in range(times):
        stack.aws.clock.advance(130)
        with suppress(ClientError, KeyError):
            act()


@pytest.mark.parametrize("error", [refused, defect])
def test_a_message_whose_claim_always_fails_is_dead_lettered(
    life: Life, error: Callable[[Call], Exception]
) -> None:
    life.send()
    life.send("february")
    with failing(life.stack.aws.gate, error, "TransactWriteItems", about=f"main#{JOB}"):
        again_and_again(life.stack, life.deliver, MAX_ERRORS - 1)
        assert life.stack.dead_letters() == []
        again_and_again(life.stack, life.deliver, 1)
    ((text, why),) = life.stack.dead_letters()
    assert json.loads(text)["job_id"] == JOB
    assert (why["class"], why["key"]) == ("internal_error", f"main#{JOB}")
    assert why["reason"].startswith(type(error(Call("s3", "X", {}))).__name__)
    assert life.row("february").state is State.RUNNING
    assert life.stack.messages() == (0, 1)


@pytest.mark.parametrize("error", [throttle, unavailable, denied, lost_answer])
def test_an_outage_never_counts(life: Life, error: Callable[[Call], Exception]) -> None:
    life.send()
    with failing(life.stack.aws.gate, error, "TransactWriteItems", about=f"main#{JOB}"):
        again_and_again(life.stack, life.deliver, 3 * MAX_ERRORS)
    assert life.stack.dead_letters() == []
    life.deliver(after_s=130)
    assert life.row().state is State.RUNNING


@pytest.mark.parametrize("error", [refused, defect])
def test_an_output_that_can_never_be_published_ends_as_a_dead_letter(
    life: Life, error: Callable[[Call], Exception]
) -> None:
    row = life.committed()
    with failing(life.stack.aws.gate, error, "CompleteMultipartUpload"):
        again_and_again(life.stack, lambda: life.settle(row))
        again_and_again(life.stack, life.sweep, 2)
    row = life.row()
    assert (row.state, row.last_class, row.owed) == (State.DEAD, "internal_error", ())
    ((_, why),) = life.stack.dead_letters()
    assert "publish" in why["reason"]
    # A redrive runs the job again.
    life.submit()
    assert life.row().run > row.run


def test_an_attempt_that_can_never_be_settled_ends_as_a_dead_letter(life: Life) -> None:
    row = life.running()
    with failing(life.stack.aws.gate, refused, "StopTask"):
        again_and_again(life.stack, lambda: life.settle(row, "stalled"))
    row = life.row()
    assert (row.state, row.last_class, row.owed) == (State.DEAD, "internal_error", ())
    assert life.slots_taken() == 0
    ((_, why),) = life.stack.dead_letters()
    assert why["class"] == "internal_error"


# Dead letters that StartMessageMoveTask moves back run under their keys.


def dead(life: Life) -> None:
    life.running(max_attempts=1)
    assert life.settle(life.row(), "exit-1") == "DEAD"


def test_redriven_job_starts_a_new_run_under_its_key_without_failures(life: Life) -> None:
    dead(life)
    before = life.row()
    queues = life.stack.sqs.queues
    source, target = (queues[url].arn for url in (life.stack.dead_letters_url, life.stack.jobs_url))
    life.stack.sqs.start_message_move_task(SourceArn=source, DestinationArn=target)
    life.deliver()
    row = life.row()
    assert (row.state, row.attempt.number, row.failures, row.run > before.run) == (
        State.RUNNING,
        2,
        0,
        True,
    )
    assert row.receive.message_id != before.receive.message_id
    life.succeed(row)
    assert life.stack.messages() == (0, 0)
