"""Publications that others hold up, that are torn, and uploads that an attempt left pending."""

# A publication that others hold up stays owed, however long, and is no mistake of the job.

import json
from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.errors import TornOutputError
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.settlement import MAX_ERRORS
from longhaul.outputs.publication import LOOK_AGAIN_AFTER
from simulation.aws.service import Answer, Call, Proceed, client_error
from tests.builders import BUCKET
from tests.faults import failing
from tests.handlers.life import Killed, Life

OUTPUT = f"s3://{BUCKET}/out/shared/"
SWEEPS = 15  # five more than what our own code may fail in a row


def committed(life: Life, job_id: str) -> Lease:
    """A job whose output replaces that of the one before."""
    row = life.running(job_id, output=OUTPUT)
    life.commit(row, OUTPUT)
    return row


def sweep_often(life: Life) -> None:
    for _ in range(SWEEPS):
        life.sweep(after_s=300)


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

    def others_are_faster(call: Call) -> ClientError:
        return client_error("PreconditionFailed", "a condition did not hold", call.operation)

    with failing(life.stack.aws.gate, others_are_faster, "PutObject", about="_SUCCESS"):
        assert life.settle(row) == "SUCCEEDED"
        sweep_often(life)
    assert life.row("january").owed == (Owed.PUBLISH, Owed.DELETE)

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


# Several outputs of a job whose publisher died between their switches.


REPORT = "report/january/"


def half_published(life: Life) -> Lease:
    """A job whose runner was killed when the first of its outputs had become visible."""
    row = life.running(outputs={"report": f"s3://{BUCKET}/{REPORT}"})
    life.commit(row, beside={"report": f"s3://{BUCKET}/{REPORT}"})

    def die_after_the_first(call: Call, proceed: Proceed) -> Answer:
        answer = proceed()
        if call.operation == "PutObject" and call.arguments["Key"].endswith("_SUCCESS"):
            raise Killed
        return answer

    life.stack.aws.gate.around = die_after_the_first
    with pytest.raises(Killed):
        life.stack.parts.publisher.publish(row.id)
    life.stack.aws.gate.around = None
    assert (life.published(), shown(life)) == (True, False)
    return row


def shown(life: Life) -> bool:
    return f"{REPORT}_SUCCESS" in life.stack.aws.s3.buckets[BUCKET].objects


def test_settle_goes_on_where_the_runner_was_killed(life: Life) -> None:
    row = half_published(life)

    assert life.settle(row, "killed") == "SUCCEEDED"

    after = life.row()
    assert (shown(life), after.is_finished, after.attempt.number) == (True, True, 1)
    assert after.attempt.output is not None
    assert after.attempt.output.paths == {"report": f"s3://{BUCKET}/{REPORT}"}


def test_a_job_of_which_a_part_shows_does_not_run_again_when_the_rest_is_lost(life: Life) -> None:
    row = half_published(life)
    objects = life.stack.aws.s3.buckets[BUCKET].objects
    (lost,) = [key for key in objects if key.startswith(REPORT)]
    life.stack.aws.s3.delete_object(Bucket=BUCKET, Key=lost)

    with pytest.raises(TornOutputError):
        life.settle(row, "killed")
    for _ in range(MAX_ERRORS):
        life.sweep(after_s=300)

    after = life.row()
    assert (after.state, after.last_class, after.attempt.number) == (
        State.DEAD,
        "internal_error",
        1,
    )
    assert (after.last_error or "").startswith("TornOutputError, 10 times in a row")
    ((_, why),) = life.stack.dead_letters()
    assert why["class"] == "internal_error"
    assert (life.published(), shown(life)) == (True, False)


# Settle or the sweeper aborts the uploads that an attempt left pending.
#
# Uploads that may still become an output are kept.


SURELY_GONE_S = 150  # stop_timeout_s + stop_margin_s


def uploading(life: Life) -> Lease:
    """An attempt that has listed and sent its uploads, and has not committed."""
    row = life.running()
    life.upload(row)
    return row


def test_settle_aborts_the_uploads_of_a_failed_attempt_and_a_sweep_removes_the_list(
    life: Life,
) -> None:
    row = uploading(life)
    life.settle(row, "killed")
    assert (life.pending_uploads(), len(life.pending_lists())) == ([], 1)
    assert "discarded" not in life.sweep()  # its task may still be sending
    assert life.sweep(after_s=SURELY_GONE_S)["discarded"] == 1
    assert life.pending_lists() == []
    assert "discarded" not in life.sweep()


def calls_of(life: Life, act: Any) -> Counter[str]:
    before = life.stack.aws.gate.counts.copy()
    act()
    return life.stack.aws.gate.counts - before


def test_sweep_with_nothing_left_behind_makes_one_call_for_lists_and_one_for_what_is_stored(
    life: Life,
) -> None:
    assert calls_of(life, life.sweep) == {
        "dynamodb.Query": 3,
        "dynamodb.UpdateItem": 1,  # which stages there are, and were
        "dynamodb.GetItem": 2,  # the slots, for the metrics
        "sqs.GetQueueAttributes": 1,
        "ecs.ListTasks": 1,
        "s3.ListObjectsV2": 2,
    }
