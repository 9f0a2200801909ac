"""A follow-on that waits for months is refused: what proves where it comes from is gone."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from longhaul.core.settings import Stage
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_stages import (
    STAGES,
    begun,
    dispatched,
    emitting,
)

CLEAN = STAGES[1]


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


@pytest.mark.parametrize(("days", "dead"), [(110, 0), (130, 2)])
def test_follow_on_waits_as_long_as_the_row_of_its_parent_lives(
    pipeline: Stack, context: Context, days: int, dead: int
) -> None:
    succeed(pipeline, context)
    pipeline.parts.slots.pause(CLEAN, pipeline.aws.clock.now())

    wait(pipeline, CLEAN, days, context)

    assert len(start(pipeline, CLEAN, context)) == 2 - dead
    assert len(receive_dead(pipeline, CLEAN)) == dead


def receive_dead(stack: Stack, stage: Stage) -> list[object]:
    return list(stack.sqs.queues[stage.dead_letter_queue_url].messages.values())
