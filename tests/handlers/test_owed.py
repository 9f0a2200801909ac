"""What an ended job owes: done at last, or a dead letter, and never unseen; and what sweeps do."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.sweeper import lambda_handler
from longhaul.core import transitions
from longhaul.core.lease import Lease, State
from longhaul.core.message import MAX_JOB_BYTES
from longhaul.core.settlement import MAX_ERRORS
from simulation.aws.service import Answer, Call, Proceed, client_error
from simulation.aws.sqs.client import Entry, EntryFault
from tests.builders import body
from tests.events import cases, event
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack
from tests.handlers.test_stages import STAGES, commit, dispatched, emitting, jobs_in, settled

MAIN, CLEAN, DELAYS = STAGES


def third(entry: Entry) -> bool:
    return "raw/2.csv" in entry["MessageBody"]


@pytest.mark.parametrize("whole_call", [False, True], ids=["one entry", "the whole call"])
def test_a_follow_on_that_sqs_never_takes_is_dead_lettered_and_no_longer_owed(
    pipeline: Stack, context: Context, *, whole_call: bool
) -> None:
    parent = pipeline.claim()
    commit(pipeline, parent, emitting(12))
    usual = pipeline.aws.gate.around

    def around(call: Call, proceed: Proceed) -> Answer:
        if call.operation == "SendMessageBatch" and any(map(third, call.arguments["Entries"])):
            raise client_error("InvalidMessageContents", "not allowed", call.operation)
        return usual(call, proceed) if usual else proceed()

    if whole_call:
        pipeline.aws.gate.around = around
    else:
        pipeline.sqs.entry_fault = lambda _, entry: (
            EntryFault("InvalidMessageContents", "not allowed", sender_fault=True)
            if third(entry)
            else None
        )
    assert settled(parent, context) == "SUCCEEDED"
    pipeline.aws.gate.around = usual
    assert pipeline.row().is_finished
    assert len(set(jobs_in(pipeline, CLEAN))) == 11
    ((_, why),) = pipeline.dead_letters(CLEAN)
    assert (why["class"], why["key"].partition("/")[0]) == ("unsendable", "clean#flights-2013-01")
    assert "InvalidMessageContents" in why["reason"]


def large(extra: int) -> str:
    """A request with as many bytes as the queue takes, less some."""
    empty = len(body(job_id="large", params={"x": ""}))
    return body(job_id="large", params={"x": "y" * (MAX_JOB_BYTES - empty - extra)})


def test_a_body_that_could_not_be_renewed_is_refused_at_its_claim(
    pipeline: Stack, context: Context
) -> None:
    for text, starts in ((large(0), False), (large(1_000), True)):
        pipeline.sqs.send_message(QueueUrl=MAIN.queue_url, MessageBody=text)
        assert [row.key for row in dispatched(pipeline, MAIN, context)] == ["main#large"] * starts
    ((sent, why),) = pipeline.dead_letters()
    assert sent == large(0)
    assert why["class"] == "invalid_request"
    assert "bytes too long" in why["reason"]
    assert "object on S3" in why["reason"]


def test_attributes_that_no_dead_letter_can_hold_are_left_out_of_it(
    pipeline: Stack, output: Path
) -> None:
    """Ten attributes full of quotes grow when they are packed into one."""
    life = Life(pipeline, output)
    attributes = {f"a{n}": {"DataType": "String", "StringValue": '"' * 100_000} for n in range(10)}
    pipeline.sqs.send_message(
        QueueUrl=MAIN.queue_url, MessageBody="no JSON", MessageAttributes=attributes
    )
    for _ in range(MAX_ERRORS):
        records = life.receive()
        kept = life.dispatch(records)
        pipeline.aws.clock.advance(130)
    assert kept == []
    ((sent, why),) = pipeline.dead_letters()
    assert (sent, why["class"]) == ("no JSON", "invalid_request")


def sweep(context: Context, case: str = "schedule") -> dict[str, Any]:
    return dict(lambda_handler(event("sweeper", case), context))


def overdue(stack: Stack) -> Lease:
    """A lease that ended an hour ago."""
    return stack.claim(lease_expires_at=stack.parts.clock.now() - timedelta(hours=1))


@pytest.mark.parametrize(
    "case", [case for case in cases("sweeper") if case.startswith("execution-")]
)
def test_event_of_an_execution_that_ended_unsettled_settles_its_attempt(
    stack: Stack, context: Context, case: str
) -> None:
    stack.claim()
    assert sweep(context, case) == {"outcome": "RELEASED"}
    assert (stack.row().state, stack.row().interruptions) == (State.RELEASED, 1)


def test_event_of_a_release_does_not_set_the_back_off_again(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = stack.claim()
    now = stack.parts.clock.now()
    released = replace(lease, state=State.RELEASED, settled_attempt=1, failures=1, settled_at=now)
    stack.parts.leases.apply(
        transitions.settle(lease, replace(released, retry_at=now + timedelta(seconds=150)))
    )
    given: list[int] = []
    monkeypatch.setattr(
        "longhaul.core.queue.SqsQueue.set_visibility", lambda *asked: given.append(asked[-1])
    )

    assert sweep(context, "released") == {"outcome": "RELEASED"}
    assert given == []
    # Without the error's name, it is unknown whether settle set the back-off: set it again.
    assert sweep(context, "execution-failed") == {"outcome": "RELEASED"}
    assert len(given) == 1


def test_row_that_fails_does_not_block_the_others(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = overdue(stack)
    stack.parts.leases.apply(
        transitions.claim(None, replace(lease, key="main#bad"), stack.settings.stages[0])
    )
    status = type(stack.parts.executions).status

    def failing(self: Any, name: str) -> Any:
        if name == replace(lease, key="main#bad").id.execution_name:
            raise TimeoutError
        return status(self, name)

    monkeypatch.setattr("longhaul.core.executions.SfnExecutions.status", failing)
    report = sweep(context)
    assert (report["looked_at"], report["started"], report["failed"]) == (2, 1, 1)
