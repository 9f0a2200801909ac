"""A follow-on that waits for months starts: what proves where it comes from lives as long."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from longhaul.core.lease import joined_ref
from longhaul.core.settings import Stage
from tests.builders import BUCKET
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_joins import BY_DATE, run_all
from tests.handlers.test_stages import (
    STAGES,
    begun,
    dispatched,
    emitting,
    end_well,
)

CLEAN, DELAYS = STAGES[1:]


@pytest.fixture
def pipeline() -> Iterator[Stack]:
    with deployed(check=False, stages=STAGES) as stack:
        yield stack


def succeed(stack: Stack, context: Context) -> str:
    """A job of the first stage emits two, which wait in the second stage; returns its key."""
    return begun(stack, context, emitting(2)).key


def wait(stack: Stack, stage: Stage, days: int, context: Context) -> None:
    """The messages of a paused stage are received every half day; DynamoDB deletes what is due."""
    rows = stack.aws.dynamodb.tables[stack.settings.leases_table]
    end = stack.aws.clock.now() + timedelta(days=days)
    while stack.aws.clock.now() < end:
        assert dispatched(stack, stage, context) == []
        stack.aws.clock.advance(43_200)
        now = stack.aws.clock.now().timestamp()
        for place, row in list(rows.rows.items()):
            if row.item and float(row.item.get("ttl", {"N": "inf"})["N"]) < now:
                stack.aws.dynamodb.expire(stack.settings.leases_table, place)


def start(stack: Stack, stage: Stage, context: Context) -> list[str]:
    """Keys of the jobs that start after the pause."""
    stack.parts.slots.resume(stage, stack.aws.clock.now())
    return [row.key for row in dispatched(stack, stage, context)]


def test_follow_on_that_waited_for_130_days_starts(pipeline: Stack, context: Context) -> None:
    succeed(pipeline, context)
    pipeline.parts.slots.pause(CLEAN, pipeline.aws.clock.now())

    wait(pipeline, CLEAN, 130, context)

    assert len(start(pipeline, CLEAN, context)) == 2
    assert pipeline.dead_letters(CLEAN) == []


def test_join_that_waited_for_130_days_starts_with_inputs_that_live_on(
    pipeline: Stack, context: Context
) -> None:
    succeed(pipeline, context)
    for row in dispatched(pipeline, CLEAN, context):
        end_well(pipeline, row, context)
    pipeline.parts.slots.pause(DELAYS, pipeline.aws.clock.now())

    wait(pipeline, DELAYS, 130, context)

    (key,) = start(pipeline, DELAYS, context)
    assert pipeline.dead_letters(DELAYS) == []
    # The bucket's lifecycle rule counts from here.
    assert pipeline.aws.clock.now() - stored_at(pipeline, key) < timedelta(days=8)


def test_join_starts_although_what_it_waited_for_waited_for_130_days(context: Context) -> None:
    with deployed(check=False, stages=BY_DATE) as stack:
        begun(stack, context, {"fetch": [{}, {}]})
        run_all(stack, "fetch", context)
        clean, delays = BY_DATE[2:]
        stack.parts.slots.pause(clean, stack.aws.clock.now())

        wait(stack, clean, 130, context)

        stack.parts.slots.resume(clean, stack.aws.clock.now())
        assert len(run_all(stack, "clean", context)) == 2
        assert len(dispatched(stack, delays, context)) == 1
        assert stack.dead_letters(delays) == []


def stored_at(stack: Stack, key: str) -> datetime:
    found = stack.aws.s3.head_object(Bucket=BUCKET, Key=joined_ref(key, 0))["LastModified"]
    assert isinstance(found, datetime)
    return found
