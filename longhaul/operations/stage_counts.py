"""A stage in numbers: queued messages, slots in use, dead letters."""

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from longhaul.core.claim import KEPT_FOR_REDRIVE
from longhaul.core.lease import State
from longhaul.core.pace import SlotUse as SlotUse
from longhaul.core.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_sqs.literals import QueueAttributeNameType

    from longhaul.operations.stack import Stack

_ALL_MESSAGES: "Final[list[QueueAttributeNameType]]" = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
]


@dataclass(frozen=True)
class StageCounts:
    """Approximate, as SQS counts.

    Attributes:
        stage: The stage.
        queued: Messages of jobs that have not begun; some of them the dispatcher holds back until
            a slot is free.
        slots: Its slots.
        dead_letters: All that its dead-letter queue holds.
        of_the_dead: How many of them are of jobs that are dead still. The others tell what was:
            their jobs have run again since, or no job is theirs.
    """

    stage: Stage
    queued: int
    slots: SlotUse
    dead_letters: int
    of_the_dead: int


def counts_of(stack: "Stack", stage: Stage, begun: int) -> StageCounts:
    """Three calls: the attributes of both queues, and the slots; more if there are letters.

    Args:
        stack: Where the stage is.
        stage: The stage.
        begun: How many rows of the stage have not ended, or owe something. Each has a message in
            the queue, visible or not; the other messages are queued. A lost message of a job that
            has begun makes the count one too low.
    """
    office, parts = stack.dead_letters, stack.parts
    answer = office.sqs.get_queue_attributes(QueueUrl=stage.queue_url, AttributeNames=_ALL_MESSAGES)
    messages = sum(int(answer["Attributes"][name]) for name in _ALL_MESSAGES)
    letters, now = office.waiting(stage), parts.clock.now()
    since = now - KEPT_FOR_REDRIVE
    # By the rows: which letter is whose, only a receive of all of them would say.
    ended = parts.leases.ended_keys
    dead = ended(stage.name, State.DEAD, now, since, keys=1_000) if letters else ()
    return StageCounts(
        stage,
        max(0, messages - begun),
        parts.slots.use(stage),
        letters,
        sum(1 for _ in islice(dead, letters)),
    )
