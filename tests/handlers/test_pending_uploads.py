"""Settle or the sweeper aborts the uploads that an attempt left pending.

Uploads that may still become an output are kept.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core import transitions
from longhaul.core.lease import AttemptId, Lease, State
from longhaul.outputs.pending import pending_ref
from longhaul.outputs.publisher import PendingOutput, Upload
from simulation.aws.errors import unavailable
from simulation.aws.service import Answer, Call, Proceed
from tests.builders import BUCKET
from tests.handlers.life import Life

SURELY_GONE_S = 150  # stop_timeout_s + stop_margin_s


def uploading(life: Life) -> Lease:
    """An attempt that has listed and sent its uploads, and has not committed."""
    row = life.running()
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


def test_settle_aborts_the_uploads_of_a_failed_attempt_and_a_sweep_removes_the_list(
    life: Life,
) -> None:
    row = uploading(life)
    life.settle(row, "killed")
    assert (life.pending_uploads(), len(life.pending_lists())) == ([], 1)
    assert "discarded" not in life.sweep()  # its task may still be sending
    wait(life)
    assert life.sweep()["discarded"] == 1
    assert life.pending_lists() == []
    assert "discarded" not in life.sweep()


def test_uploads_of_an_older_attempt_are_aborted_while_the_next_one_keeps_its_own(
    life: Life,
) -> None:
    row = uploading(life)
    after = replace(
        row, state=State.RELEASED, settled_attempt=1, settled_at=life.stack.aws.clock.now()
    )
    life.stack.parts.leases.apply(transitions.settle(row, after))  # settle died after this write
    wait(life, 200)
    life.deliver()
    second = life.row()
    life.start_work(second)
    life.commit(second)
    assert life.sweep()["discarded"] == 1
    assert len(life.pending_uploads()) == 1
    # Settle publishes from the list that the sweep has kept.
    assert life.settle(second, "killed") == "SUCCEEDED"
    assert life.published()


def test_committed_output_keeps_its_uploads_until_it_is_published(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = life.running()
    life.commit(row)
    with monkeypatch.context() as trouble:
        failing(life, "CompleteMultipartUpload", trouble)
        with pytest.raises(ClientError, match="internal error"):
            life.settle(row, "killed")
        for _ in range(5):
            wait(life, 3600)
            found = life.sweep()
            assert (found["looked_at"], found["failed"], "discarded" in found) == (1, 1, False)
    assert life.sweep()["finished"] == 1
    assert life.published()
    assert "discarded" not in life.sweep()
    assert (life.pending_uploads(), life.pending_lists()) == ([], [])


def left_by(life: Life, count: int) -> list[AttemptId]:
    """Create lists of attempts that have no row any more."""
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
        PendingOutput(token=attempt.token, prefix=f"s3://{bucket}/out/", uploads=(upload,))
        .model_dump_json()
        .encode()
    )


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


def test_unreadable_list_does_not_block_the_others(life: Life) -> None:
    first, *_ = left_by(life, 3)
    life.stack.aws.s3.put_object(Bucket=BUCKET, Key=pending_ref(first), Body=b"{")
    assert life.sweep() == {"discarded": 2, "failed": 1}
    assert life.pending_lists() == [pending_ref(first)]
