"""What attempts leave pending is aborted, by settle or by the sweeper, and nothing that may still become an output is."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.adapters.s3_publisher import PendingOutput, Upload
from longhaul.domain.lease import AttemptId, Lease, State
from longhaul.domain.pending import pending_ref
from tests.builders import BUCKET
from tests.fakes.faults import unavailable
from tests.fakes.service import Answer, Call, Proceed
from tests.handlers.conftest import Stack
from tests.handlers.life import Life

JOB = "january"
SURELY_GONE_S = 150  # stop_timeout_s + stop_margin_s


@pytest.fixture
def life(stack: Stack, output: Path) -> Life:
    return Life(stack, output)


def running(life: Life) -> Lease:
    life.send(JOB)
    life.deliver()
    life.start_work(life.row(JOB))
    return life.row(JOB)


def uploading(life: Life) -> Lease:
    """An attempt that has listed its uploads, sent them, and not committed."""
    row = running(life)
    life.upload(row)
    return row


def wait(life: Life, seconds: float = SURELY_GONE_S) -> None:
    life.stack.aws.clock.advance(seconds)


def failing(life: Life, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    around = life.stack.aws.gate.around
    assert around is not None

    def fails(call: Call, proceed: Proceed) -> Answer:
        if call.operation == operation:
            raise unavailable(call)
        return around(call, proceed)

    monkeypatch.setattr(life.stack.aws.gate, "around", fails)


def test_a_failed_attempts_uploads_are_aborted_by_settle_and_its_list_by_the_sweeper(life: Life) -> None:
    row = uploading(life)
    life.settle(row, "killed")
    assert (life.pending_uploads(), len(life.pending_lists())) == ([], 1)
    assert "discarded" not in life.sweep()  # its task may still be sending
    wait(life)
    assert life.sweep()["discarded"] == 1
    assert life.pending_lists() == []
    assert "discarded" not in life.sweep()


def test_uploads_that_settle_could_not_abort_are_aborted_by_the_sweeper(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = uploading(life)
    with monkeypatch.context() as trouble:
        failing(life, "AbortMultipartUpload", trouble)
        with pytest.raises(ClientError, match="internal error"):
            life.settle(row, "killed")
    assert life.settle(row, "killed") == "RELEASED"  # the state machine's next try
    assert len(life.pending_uploads()) == 1
    wait(life)
    assert life.sweep()["discarded"] == 1
    assert (life.pending_uploads(), life.pending_lists()) == ([], [])


def test_uploads_that_a_task_began_after_its_attempt_was_settled_are_aborted(life: Life) -> None:
    row = uploading(life)
    life.settle(row, "stalled")
    life.upload(row)  # it has not heard yet
    wait(life)
    assert life.sweep()["discarded"] == 1
    assert (life.pending_uploads(), life.pending_lists()) == ([], [])


def test_parts_that_outlived_the_first_abort_go_with_the_second(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    row = uploading(life)
    with monkeypatch.context() as on_its_way:
        # S3 says 204, and a part that was on its way keeps the upload alive.
        on_its_way.setattr(type(life.stack.aws.s3), "abort_multipart_upload", lambda *_, **__: {})
        life.settle(row, "timed-out")
    assert len(life.pending_uploads()) == 1
    wait(life)
    life.sweep()
    assert life.pending_uploads() == []


def test_an_attempt_that_uploads_for_hours_keeps_its_uploads(life: Life) -> None:
    row = uploading(life)
    for _ in range(10):
        wait(life, 1800)
        life.report(row)
        life.beat(row)
        assert "discarded" not in life.sweep()
    assert len(life.pending_uploads()) == 1


def test_what_one_attempt_left_is_cleared_away_while_the_next_one_uploads(life: Life) -> None:
    row = uploading(life)
    after = replace(row, state=State.RELEASED, settled_attempt=1, settled_at=life.stack.aws.clock.now())
    life.stack.parts.leases.settle(row, after)  # and there its settle died
    wait(life, 200)
    life.deliver()
    second = life.row(JOB)
    life.start_work(second)
    life.commit(second)
    assert life.sweep()["discarded"] == 1
    assert len(life.pending_uploads()) == 1
    assert life.settle(second, "killed") == "SUCCEEDED"  # published by settle, from the list that the sweep left
    assert life.published(JOB)


def test_a_committed_output_keeps_its_uploads_until_it_is_published_however_long_that_takes(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = running(life)
    life.commit(row)
    with monkeypatch.context() as trouble:
        failing(life, "CompleteMultipartUpload", trouble)
        with pytest.raises(ClientError, match="internal error"):
            life.settle(row, "killed")
        for _ in range(5):
            wait(life, 3600)
            assert life.sweep() == {"looked_at": 1, "failed": 1}
    assert life.sweep()["finished"] == 1
    assert life.published(JOB)
    assert "discarded" not in life.sweep()
    assert (life.pending_uploads(), life.pending_lists()) == ([], [])


def test_a_good_jobs_list_goes_with_the_next_sweep(life: Life) -> None:
    life.send(JOB)
    life.deliver()
    life.complete(life.row(JOB))
    assert life.sweep() == {"looked_at": 1}
    assert len(life.pending_lists()) == 1
    life.settle(life.row(JOB))
    assert life.sweep() == {}
    assert life.pending_lists() == []


def left_by(life: Life, count: int) -> list[AttemptId]:
    """Lists of attempts of which no row tells any more."""
    attempts = [AttemptId(f"main#gone/{n}", 1, 1) for n in range(count)]
    for attempt in attempts:
        key = f"out/{attempt.token}.json"
        upload = life.stack.aws.s3.create_multipart_upload(Bucket=BUCKET, Key=key)
        life.stack.aws.s3.put_object(
            Bucket=BUCKET, Key=pending_ref(attempt), Body=listing(attempt, key, upload["UploadId"])
        )
    return attempts


def listing(attempt: AttemptId, key: str, upload_id: str, bucket: str = BUCKET) -> bytes:
    path = key.removeprefix("out/")
    upload = Upload(path=path, upload_id=upload_id, size=1)
    return (
        PendingOutput(token=attempt.token, prefix=f"s3://{bucket}/out/", uploads=(upload,)).model_dump_json().encode()
    )


def calls_of(life: Life, act: Any) -> Counter[str]:
    before = life.stack.aws.gate.counts.copy()
    act()
    return life.stack.aws.gate.counts - before


def test_any_number_is_cleared_page_by_page(life: Life) -> None:
    left_by(life, 230)
    life.stack.aws.s3.page_size = 90
    calls = calls_of(life, life.sweep)
    assert (life.pending_uploads(), life.pending_lists()) == ([], [])
    wanted = {"s3.ListObjectsV2": 3, "dynamodb.BatchGetItem": 3, "s3.DeleteObjects": 3, "s3.AbortMultipartUpload": 230}
    assert {name: count for name, count in calls.items() if name in wanted} == wanted


def test_with_nothing_pending_a_sweep_takes_one_call_more_than_looking_at_leases_and_tasks(life: Life) -> None:
    assert calls_of(life, life.sweep) == {
        "dynamodb.Query": 3,
        "dynamodb.GetItem": 2,  # the slots, for the metrics; the queue too
        "sqs.GetQueueAttributes": 1,
        "ecs.ListTasks": 1,
        "s3.ListObjectsV2": 1,
    }


def test_one_list_that_cannot_be_read_never_blocks_the_rest(life: Life) -> None:
    first, *_ = left_by(life, 3)
    life.stack.aws.s3.put_object(Bucket=BUCKET, Key=pending_ref(first), Body=b"{")
    assert life.sweep() == {"discarded": 2, "failed": 1}
    assert life.pending_lists() == [pending_ref(first)]


def test_the_list_of_a_bucket_that_is_gone_comes_to_its_end_too(life: Life) -> None:
    attempt = AttemptId("main#gone", 1, 1)
    life.stack.aws.s3.put_object(
        Bucket=BUCKET, Key=pending_ref(attempt), Body=listing(attempt, "out/x", "u", bucket="no-more")
    )
    assert life.sweep() == {"discarded": 1}
    assert life.pending_lists() == []
