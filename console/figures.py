"""A stage in figures: what waits, what runs, what died."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from console.target import Target
from longhaul.domain.lease import Lease
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

_ALL_MESSAGES: "Final[list[QueueAttributeNameType]]" = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
]


@dataclass(frozen=True)
class Figures:
    """All of them about right, as SQS counts; of a moment ago."""

    stage: Stage
    queued: int  # messages that nobody has claimed; also those that the dispatcher holds back for want of a slot
    slots_in_use: int
    dead_letters: int


def figures(target: Target, sqs: "SQSClient", stage: Stage, unfinished: Iterable[Lease]) -> Figures:
    """Three calls: the attributes of both queues, and the slots.

    Args:
        target: Whose stage.
        sqs: Of that target.
        stage: The stage.
        unfinished: All rows that have not ended, or owe something, of this stage and maybe of others. Each has a message in the queue, shown or not; those of the
            others are queued. When messages of jobs that have begun are lost, about as many too few are counted.
    """
    answer = sqs.get_queue_attributes(QueueUrl=stage.queue_url, AttributeNames=_ALL_MESSAGES)
    messages = sum(int(answer["Attributes"][name]) for name in _ALL_MESSAGES)
    begun = sum(row.stage == stage.name for row in unfinished)
    return Figures(
        stage,
        max(0, messages - begun),
        target.parts.leases.slots_in_use(stage),
        target.dead_letters.waiting(stage),
    )
