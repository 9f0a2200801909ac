"""Publications that are held up, torn or void, and uploads that an attempt left pending."""

# A publication that others hold up stays owed, however long, and is no mistake of the job.

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from longhaul.core import transitions
from longhaul.core.errors import TornOutputError
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.settlement import MAX_ERRORS
from longhaul.outputs.publication import LOOK_AGAIN_AFTER
from simulation.aws.s3.uploads import AT_ONCE, Completion
from simulation.aws.service import Answer, Call, Proceed
from tests.builders import BUCKET
from tests.emf import metrics_in
from tests.handlers.life import Killed, Life
from tests.lease_page import table

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


def test_sweep_with_nothing_left_behind_makes_one_call_for_lists_and_one_for_what_is_stored(
    life: Life,
) -> None:
    assert life.stack.calls_of(life.sweep) == {
        "dynamodb.Query": 3,
        "dynamodb.UpdateItem": 1,  # which stages there are, and were
        "dynamodb.GetItem": 2,  # the slots, for the metrics
        "sqs.GetQueueAttributes": 1,
        "ecs.ListTasks": 1,
        "s3.ListObjectsV2": 2,
    }


# Uploads of a committed output that look gone: they may be, or S3 is still completing them.


HALF_AN_HOUR_S = LOOK_AGAIN_AFTER.total_seconds()


def lose_uploads(life: Life) -> None:
    """As the bucket's lifecycle rule does."""
    life.stack.aws.s3.abort_older_uploads(life.stack.aws.clock.now() + timedelta(seconds=1))


def dies_during(life: Life, how: Completion, act: Callable[[], object]) -> None:
    """The process dies while S3 completes an upload."""
    s3 = life.stack.aws.s3

    def die(_seconds: float) -> None:
        raise Killed

    s3.completion, sleep, s3.sleep = lambda _key: how, s3.sleep, die
    with pytest.raises(Killed):
        act()
    s3.completion, s3.sleep = lambda _key: AT_ONCE, sleep


def begin_completion(life: Life, row: Lease, how: Completion) -> None:
    """A publisher dies while S3 completes the upload."""
    dies_during(life, how, partial(life.stack.parts.publisher.publish, row.id))


def prepare_uploads(life: Life, row: Lease, uploads: str) -> None:
    match uploads:
        case "completed":
            begin_completion(life, row, Completion(1))
            life.stack.aws.clock.advance(1)
        case "gone":
            lose_uploads(life)
        case _:
            assert uploads == "pending"


def outcome(life: Life, before: Lease) -> str:
    after = life.row()
    if after.attempt.published_at:
        assert life.published()
        return "publish"
    if after.state is State.RELEASED:
        return "void"
    return "nothing" if after.attempt.gone_at == before.attempt.gone_at else "note"


@pytest.mark.parametrize(
    ("uploads", "noted", "wanted"),
    [
        (cells["uploads"], noted, cells[noted])
        for cells in table("A publication")
        for noted in ("not noted", "noted a moment ago", "noted half an hour ago")
    ],
)
def test_publication_does_what_the_table_says(
    life: Life, uploads: str, noted: str, wanted: str
) -> None:
    row = life.owing_its_publish()
    prepare_uploads(life, row, uploads)
    if noted != "not noted":
        row = life.stack.parts.leases.apply(transitions.note_gone(row, life.stack.aws.clock.now()))
    life.sweep(after_s=HALF_AN_HOUR_S if noted == "noted half an hour ago" else 60)
    assert outcome(life, row) == wanted


def test_second_look_that_dies_starts_the_half_hour_again(life: Life) -> None:
    """It may have begun a completion, which looks gone to the next one."""
    row = life.committed()
    begin_completion(life, row, Completion(40, "gone", fails=True))
    life.settle(row, "killed")
    life.stack.aws.clock.advance(HALF_AN_HOUR_S)
    dies_during(life, Completion(600, "gone"), life.sweep)
    life.sweep(after_s=300)
    assert life.row().state is State.SUCCEEDED
    life.sweep(after_s=300)
    assert life.published()
    assert life.row().id == row.id


def test_job_whose_commit_is_void_each_time_ends_as_a_dead_letter(life: Life) -> None:
    """A consumer of the bucket's events moves each new object away."""
    s3, clock = life.stack.aws.s3, life.stack.aws.clock

    def moved_away(call: Call, proceed: Proceed) -> Answer:
        answer = proceed()
        if call.operation == "CompleteMultipartUpload":
            s3.buckets[call.arguments["Bucket"]].objects.pop(call.arguments["Key"], None)
        return answer

    life.stack.aws.gate.around = moved_away
    life.send()
    runs = 0
    for _ in range(100):
        life.deliver()
        if life.row().state is State.RUNNING:
            row = life.row()
            life.start_work(row)
            life.commit(row)
            life.settle(row, "exit-1")
            runs += 1
            clock.advance(HALF_AN_HOUR_S)
        life.sweep(after_s=150)
    life.stack.aws.gate.around = None

    assert (life.row().state, life.row().interruptions) == (State.DEAD, 20)
    assert runs == 20
    ((_, why),) = life.stack.dead_letters()
    assert (why["class"], why["reason"]) == ("interrupted", "the committed output was void")
    assert life.stack.messages() == (0, 0)


def test_void_commit_takes_its_success_back(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    row = life.committed()
    lose_uploads(life)
    life.stack.aws.clock.advance(7200)
    life.settle(row, "killed")
    life.sweep(after_s=HALF_AN_HOUR_S)

    put: dict[str, float] = defaultdict(float)
    for datum in metrics_in(capsys.readouterr().out):
        put[datum.name] += datum.value
    assert {put["JobsSucceeded"], put["WorkWasted"] - 7200} == {0}
    assert put["AttemptsInterrupted"] == 1
