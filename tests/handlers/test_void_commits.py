"""Uploads of a committed output that look gone: they may be, or S3 is still completing them."""

from collections import defaultdict
from datetime import timedelta

import pytest

from longhaul.core import transitions
from longhaul.core.lease import Lease, Owed, State
from longhaul.outputs.publication import LOOK_AGAIN_AFTER
from simulation.aws.s3.completion import AT_ONCE, Completion
from simulation.aws.service import Answer, Call, Proceed
from tests.emf import metrics_in
from tests.handlers.life import Killed, Life
from tests.lease_page import table

HALF_AN_HOUR_S = LOOK_AGAIN_AFTER.total_seconds()


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


def test_uploads_that_are_gone_twice_half_an_hour_apart_make_the_job_run_again(life: Life) -> None:
    row = life.committed()
    lose_uploads(life)
    assert life.settle(row, "killed") == "SUCCEEDED"
    assert life.row().owed == (Owed.PUBLISH, Owed.DELETE)

    life.sweep(after_s=HALF_AN_HOUR_S - 1)
    assert life.row().state is State.SUCCEEDED
    life.sweep(after_s=1)

    after = life.row()
    assert (after.state, after.attempt.output, after.attempt.gone_at) == (
        State.RELEASED,
        None,
        None,
    )
    life.deliver(after_s=300)
    life.succeed(life.row())
    assert life.published()


def test_second_look_that_dies_starts_the_half_hour_again(life: Life) -> None:
    """It may have begun a completion, which looks gone to the next one."""
    row = life.committed()
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
