"""A stage in numbers: queued messages, slots in use, dead letters."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from longhaul.domain.pace import SlotUse
from longhaul.ports import Slots
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

    from longhaul.operations.dead_letters import DeadLetterOffice

_ALL_MESSAGES: "Final[list[QueueAttributeNameType]]" = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
]


@dataclass(frozen=True)
class StageCounts:
    """Approximate, as SQS counts.

    `queued` are messages of jobs that have not begun; some of them the dispatcher holds back until
    a slot is free.
    """

    stage: Stage
    queued: int
    slots: SlotUse
    dead_letters: int


@dataclass(frozen=True)
class StageCounter:
    sqs: "SQSClient"
    slots: Slots
    letters: "DeadLetterOffice"

    def count(self, stage: Stage, begun: int) -> StageCounts:
        """Three calls: the attributes of both queues, and the slots.

        Args:
            stage: The stage.
            begun: How many rows of the stage have not ended, or owe something. Each has a message
                in the queue, visible or not; the other messages are queued. A lost message of a
                job that has begun makes the count one too low.
        """
        answer = self.sqs.get_queue_attributes(
            QueueUrl=stage.queue_url, AttributeNames=_ALL_MESSAGES
        )
        messages = sum(int(answer["Attributes"][name]) for name in _ALL_MESSAGES)
        return StageCounts(
            stage,
            max(0, messages - begun),
            self.slots.use(stage),
            self.letters.waiting(stage),
        )
