"""Several outputs of a job whose publisher died between their switches."""

import pytest

from longhaul.core.errors import TornOutputError
from longhaul.core.lease import Lease, State
from longhaul.core.settlement import MAX_ERRORS
from simulation.aws.service import Answer, Call, Proceed
from tests.builders import BUCKET
from tests.handlers.life import Killed, Life

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
        life.stack.aws.clock.advance(300)
        life.sweep()

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
