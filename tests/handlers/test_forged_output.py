"""A job's code commits an output at another place than its request names."""

from pathlib import Path

import pytest

from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput, State
from longhaul.outputs.manifest import Manifest, PendingOutput
from longhaul.outputs.pending import goes_elsewhere, pending_ref
from tests.builders import BUCKET
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack

THEIRS = f"s3://{BUCKET}/theirs/"


def test_a_function_publishes_nothing_where_the_request_does_not_let_it_go(
    stack: Stack, context: Context, output: Path
) -> None:
    life = Life(stack, output, context)
    row = life.running("forges")
    manifest = Manifest(key=row.key, run=row.run, attempt=row.attempt.number, files=(), rows={})
    pending = PendingOutput(token=row.id.token, prefix=THEIRS, uploads=(), manifest=manifest)
    ref = pending_ref(row.id)
    stack.aws.s3.put_object(Bucket=BUCKET, Key=ref, Body=pending.model_dump_json().encode())
    # The row says the place of the request, and the list another.
    committed = CommittedOutput(row.attempt.number, 0, 0, prefix=f"s3://{BUCKET}/out/forges/")
    stack.parts.leases.report(transitions.commit(row.id, committed))
    life.settle(row)
    for _ in range(4):
        stack.aws.clock.advance(1_900)
        life.sweep()
        life.deliver()

    assert "theirs/_SUCCESS" not in stack.aws.s3.buckets[BUCKET].objects
    # The commit is void: another attempt began.
    assert (life.row("forges").state, life.row("forges").attempt.number) == (State.RUNNING, 2)


@pytest.mark.parametrize(
    ("prefix", "beside", "is_elsewhere"),
    [
        (f"s3://{BUCKET}/out/", (), False),
        (f"s3://{BUCKET}/out/deeper/", (), True),
        (f"s3://{BUCKET}/out/", (f"s3://{BUCKET}/report/",), False),
        (f"s3://{BUCKET}/out/", (THEIRS,), True),
    ],
)
def test_each_output_of_a_list_is_at_a_place_of_the_request(
    prefix: str, beside: tuple[str, ...], *, is_elsewhere: bool
) -> None:
    first, *others = (PendingOutput(token="t", prefix=each) for each in (prefix, *beside))
    pending = first.model_copy(update={"beside": tuple(others)})
    places = [f"s3://{BUCKET}/out/", f"s3://{BUCKET}/report/"]
    assert goes_elsewhere(pending, places) is is_elsewhere
