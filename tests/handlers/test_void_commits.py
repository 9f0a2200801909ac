"""Uploads of a committed output that look gone: they may be, or S3 is still completing them."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.core import transitions
from longhaul.core.lease import Lease, Owed, State
from longhaul.outputs.publication import LOOK_AGAIN_AFTER
from simulation.aws.s3.completion import AT_ONCE, Completion, Meanwhile
from simulation.aws.service import Answer, Call, Proceed
from tests.emf import metrics_in
from tests.handlers.conftest import Stack, deployed
from tests.handlers.life import Kill, Killed, Life
from tests.lease_page import table

JOB = "january"
HALF_AN_HOUR_S = LOOK_AGAIN_AFTER.total_seconds()


@pytest.fixture
def life(stack: Stack, output: Path) -> Life:
    return Life(stack, output)


def committed(life: Life) -> Lease:
    """An attempt that has committed, and was killed before it could publish."""
    life.send(JOB)
    life.deliver()
    row = life.row(JOB)
    life.start_work(row)
    life.commit(row)
    return row


def lose_uploads(life: Life) -> None:
    """As the bucket's lifecycle rule does."""
    life.stack.aws.s3.abort_older_uploads(life.stack.aws.clock.now() + timedelta(seconds=1))


def begin_completion(life: Life, row: Lease, how: Completion) -> None:
    """A publisher dies while S3 completes the upload."""
    s3 = life.stack.aws.s3

    def die(_seconds: float) -> None:
        raise Killed

    s3.completion, sleep, s3.sleep = lambda _key: how, s3.sleep, die
    with pytest.raises(Killed):
        life.stack.parts.publisher.publish(row.id)
    s3.completion, s3.sleep = lambda _key: AT_ONCE, sleep


def owing_its_publish(life: Life) -> Lease:
    """A job that succeeded, and whose settle died before it published."""
    row = committed(life)
    with Kill(life.stack.aws.gate, 2, after=True):
        life.settle(row, "killed")
    return life.row(JOB)


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
    after = life.row(JOB)
    if after.attempt.published_at:
        assert life.published(JOB)
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
    row = owing_its_publish(life)
    prepare_uploads(life, row, uploads)
    if noted != "not noted":
        row = life.stack.parts.leases.apply(transitions.note_gone(row, life.stack.aws.clock.now()))
    life.stack.aws.clock.advance(HALF_AN_HOUR_S if noted == "noted half an hour ago" else 60)
    life.sweep()
    assert outcome(life, row) == wanted


def test_uploads_that_are_gone_twice_half_an_hour_apart_make_the_job_run_again(life: Life) -> None:
    row = committed(life)
    lose_uploads(life)
    assert life.settle(row, "killed") == "SUCCEEDED"
    assert life.row(JOB).owed == (Owed.PUBLISH, Owed.DELETE)

    life.stack.aws.clock.advance(HALF_AN_HOUR_S - 1)
    life.sweep()
    assert life.row(JOB).state is State.SUCCEEDED
    life.stack.aws.clock.advance(1)
    life.sweep()

    after = life.row(JOB)
    assert (after.state, after.attempt.output, after.attempt.gone_at) == (
        State.RELEASED,
        None,
        None,
    )
    life.stack.aws.clock.advance(300)
    life.deliver()
    life.complete(life.row(JOB))
    assert life.settle(life.row(JOB)) == "SUCCEEDED"
    assert life.published(JOB)


@pytest.mark.parametrize("meanwhile", ["gone", "repeats"])
def test_output_that_s3_is_still_completing_is_published_by_the_next_sweep(
    life: Life, meanwhile: Meanwhile
) -> None:
    row = committed(life)
    begin_completion(life, row, Completion(280, meanwhile))
    assert life.settle(row, "killed") == "SUCCEEDED"
    assert not life.published(JOB)

    life.stack.aws.clock.advance(300)
    life.sweep()

    assert life.published(JOB)
    assert life.row(JOB).id == row.id
    assert Owed.PUBLISH not in life.row(JOB).owed


def test_nobody_completes_an_upload_between_the_two_looks(life: Life) -> None:
    row = committed(life)
    lose_uploads(life)
    life.settle(row, "killed")
    counts = life.stack.aws.gate.counts
    before = counts["s3.CompleteMultipartUpload"]
    for _ in range(5):
        life.stack.aws.clock.advance(300)
        life.sweep()
    assert counts["s3.CompleteMultipartUpload"] == before


def test_second_look_that_dies_starts_the_half_hour_again(life: Life) -> None:
    """It may have begun a completion, which looks gone to the next one."""
    row = committed(life)
    begin_completion(life, row, Completion(40, "gone", fails=True))
    life.settle(row, "killed")
    life.stack.aws.clock.advance(HALF_AN_HOUR_S)
    s3 = life.stack.aws.s3

    def die(_seconds: float) -> None:
        raise Killed

    s3.completion, sleep, s3.sleep = lambda _key: Completion(600, "gone"), s3.sleep, die
    with pytest.raises(Killed):
        life.sweep()
    s3.completion, s3.sleep = lambda _key: AT_ONCE, sleep
    life.stack.aws.clock.advance(300)
    life.sweep()
    assert life.row(JOB).state is State.SUCCEEDED
    life.stack.aws.clock.advance(300)
    life.sweep()
    assert life.published(JOB)
    assert life.row(JOB).id == row.id


def test_job_that_was_cancelled_before_its_commit_was_void_does_not_run_again(life: Life) -> None:
    row = committed(life)
    lose_uploads(life)
    life.settle(row, "killed")
    life.stack.aws.clock.advance(60)
    assert life.cancel(JOB).state is State.SUCCEEDED
    life.stack.aws.clock.advance(HALF_AN_HOUR_S)
    life.sweep()
    life.stack.aws.clock.advance(300)
    life.deliver()
    assert (life.row(JOB).state, life.row(JOB).attempt.number) == (State.CANCELLED, 1)
    assert life.stack.messages() == (0, 0)


def test_job_that_was_cancelled_before_its_commit_was_void_is_not_claimed_from_its_row(
    output: Path,
) -> None:
    with deployed(slots=1) as stack:
        life = Life(stack, output)
        row = committed(life)
        lose_uploads(life)
        life.settle(row, "killed")
        stack.aws.clock.advance(60)
        life.cancel(JOB)
        hide(life, hours=10)  # far behind a backlog
        stack.aws.clock.advance(HALF_AN_HOUR_S)
        life.sweep()
        assert life.row(JOB).state is State.RELEASED
        hide(life, hours=10)
        stack.aws.clock.advance(200)

        life.send("another")
        life.deliver()

        assert (life.row(JOB).state, life.row(JOB).attempt.number) == (State.RELEASED, 1)
        assert life.row("another").state is State.RUNNING


def hide(life: Life, *, hours: float) -> None:
    until = (life.stack.aws.clock.now() + timedelta(hours=hours)).timestamp()
    queue = life.stack.sqs.queues[life.stack.jobs_url]
    for message in queue.messages.values():
        queue.show(message, until)


def test_job_whose_commit_is_void_each_time_ends_as_a_dead_letter(life: Life) -> None:
    """A consumer of the bucket's events moves each new object away."""
    s3, clock = life.stack.aws.s3, life.stack.aws.clock

    def moved_away(call: Call, proceed: Proceed) -> Answer:
        answer = proceed()
        if call.operation == "CompleteMultipartUpload":
            s3.buckets[call.arguments["Bucket"]].objects.pop(call.arguments["Key"], None)
        return answer

    life.stack.aws.gate.around = moved_away
    life.send(JOB)
    runs = 0
    for _ in range(100):
        life.deliver()
        if life.row(JOB).state is State.RUNNING:
            row = life.row(JOB)
            life.start_work(row)
            life.commit(row)
            life.settle(row, "exit-1")
            runs += 1
            clock.advance(HALF_AN_HOUR_S)
        clock.advance(150)
        life.sweep()
    life.stack.aws.gate.around = None

    assert (life.row(JOB).state, life.row(JOB).interruptions) == (State.DEAD, 20)
    assert runs == 20
    ((_, why),) = life.stack.dead_letters()
    assert (why["class"], why["reason"]) == ("interrupted", "the committed output was void")
    assert life.stack.messages() == (0, 0)


def test_void_commit_takes_its_success_back(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    row = committed(life)
    lose_uploads(life)
    life.stack.aws.clock.advance(7200)
    life.settle(row, "killed")
    life.stack.aws.clock.advance(HALF_AN_HOUR_S)
    life.sweep()

    put: Counter[str] = Counter()
    for datum in metrics_in(capsys.readouterr().out):
        put[datum.name] += datum.value
    assert {put["JobsSucceeded"], put["WorkWasted"] - 7200} == {0}
    assert put["AttemptsInterrupted"] == 1


def test_row_is_reopened_before_anything_of_a_void_commit_is_deleted(life: Life) -> None:
    row = committed(life)
    lose_uploads(life)
    life.settle(row, "killed")
    life.stack.aws.clock.advance(HALF_AN_HOUR_S)
    life.stack.aws.gate.calls.clear()
    life.sweep()
    order = [call.operation for call in life.stack.aws.gate.calls]
    reopened = order.index("TransactWriteItems")
    assert "AbortMultipartUpload" in order[reopened:]
    assert not {"AbortMultipartUpload", "DeleteObjects"} & set(order[:reopened])
