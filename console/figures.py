"""A stage in figures: what waits, what runs, what died."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.target import Target
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True)
class Figures:
    """All of them about right, as SQS counts; of a moment ago."""

    stage: Stage
    queued: int  # messages that show, or will when their delay is over
    in_flight: int  # of jobs that have begun, or held back for want of a slot
    slots_in_use: int
    dead_letters: int


def figures(target: Target, sqs: "SQSClient", stage: Stage) -> Figures:
    """Three calls: the attributes of both queues, and the slots."""
    answer = sqs.get_queue_attributes(
        QueueUrl=stage.queue_url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible",
        ],
    )
    counts = answer["Attributes"]
    return Figures(
        stage,
        int(counts["ApproximateNumberOfMessages"]) + int(counts["ApproximateNumberOfMessagesDelayed"]),
        int(counts["ApproximateNumberOfMessagesNotVisible"]),
        target.parts.leases.slots_in_use(stage),
        target.dead_letters.waiting(stage),
    )
