"""Redrive of a dead-letter queue."""

from dataclasses import dataclass

from tests.fakes.service import Answer


@dataclass(eq=False)
class MoveTask:
    handle: str
    source_arn: str
    destination_arn: str | None
    status: str
    moved: int
    failure: str | None
    started_at: float

    def described(self) -> Answer:
        """As ListMessageMoveTasks shows it."""
        optional = {"DestinationArn": self.destination_arn, "FailureReason": self.failure}
        return {
            "Status": self.status,
            "SourceArn": self.source_arn,
            "ApproximateNumberOfMessagesMoved": self.moved,
            "StartedTimestamp": round(self.started_at * 1000),
            **{name: value for name, value in optional.items() if value is not None},
        }
