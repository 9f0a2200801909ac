"""A publication that others hold up: it stays owed, however long, and is no mistake of the job."""

import json

import pytest

from longhaul.core.lease import Lease, Owed, State
from longhaul.outputs.publication import LOOK_AGAIN_AFTER
from simulation.aws.service import Answer, Call, Proceed, client_error
from tests.builders import BUCKET
from tests.handlers.life import Life

OUTPUT = f"s3://{BUCKET}/out/shared/"
SWEEPS = 15  # five more than what our own code may fail in a row


def committed(life: Life, job_id: str) -> Lease:
    """A job whose output replaces that of the one before."""
    row = life.running(job_id, output=OUTPUT)
    life.commit(row, OUTPUT)
    return row


def sweep_often(life: Life) -> None:
    for _ in range(SWEEPS):
        life.stack.aws.clock.advance(300)
        life.sweep()


def not_deleted(code: str, call: Call) -> Answer:
    """DeleteObjects succeeds, and names what is still there.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
    """
    keys = [each["Key"] for each in call.arguments["Delete"]["Objects"]]
    return {"Errors": [{"Key": key, "Code": code, "Message": "x"} for key in keys]}


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "AccessDenied"])
def test_files_that_s3_does_not_delete_leave_the_publication_owed(life: Life, code: str) -> None:
    assert life.settle(committed(life, "first")) == "SUCCEEDED"
    row = committed(life, "second")

    def refuse(call: Call, proceed: Proceed) -> Answer:
        ours = call.operation == "DeleteObjects"
        return not_deleted(code, call) if ours else proceed()

    life.stack.aws.gate.around = refuse
    assert life.settle(row) == "SUCCEEDED"
    sweep_often(life)

    manifest = life.stack.aws.s3.buckets[BUCKET].objects["out/shared/_SUCCESS"]
    assert json.loads(manifest.body)["key"] == row.key
    assert life.row("second").owed == (Owed.PUBLISH, Owed.DELETE)
    life.stack.aws.gate.around = None
    life.sweep()
    assert (life.row("second").state, life.row("second").owed) == (State.SUCCEEDED, ())
    assert life.stack.dead_letters() == []


def test_an_output_that_others_change_each_time_leaves_the_publication_owed(life: Life) -> None:
    row = committed(life, "january")

    def others_are_faster(call: Call, proceed: Proceed) -> Answer:
        if call.operation == "PutObject" and call.arguments["Key"].endswith("_SUCCESS"):
            raise client_error("PreconditionFailed", "a condition did not hold", "PutObject")
        return proceed()

    life.stack.aws.gate.around = others_are_faster
    assert life.settle(row) == "SUCCEEDED"
    sweep_often(life)
    assert life.row("january").owed == (Owed.PUBLISH, Owed.DELETE)

    life.stack.aws.gate.around = None
    life.sweep()
    assert (life.row("january").state, life.row("january").owed) == (State.SUCCEEDED, ())
    assert life.stack.dead_letters() == []


def test_lists_that_s3_does_not_delete_end_no_sweep(life: Life) -> None:
    life.settle(committed(life, "january"))
    life.stack.aws.clock.advance(LOOK_AGAIN_AFTER.total_seconds() + 86_400)
    assert life.pending_lists()

    life.stack.aws.gate.around = lambda call, proceed: (
        not_deleted("AccessDenied", call) if call.operation == "DeleteObjects" else proceed()
    )
    assert life.sweep()["failed"] == 1
    life.stack.aws.gate.around = None
    life.sweep()

    assert life.pending_lists() == []
