"""EventBridge Scheduler: what is deployed of a stage's schedule."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.domain.firings import DeployedSchedule

if TYPE_CHECKING:
    from mypy_boto3_scheduler import EventBridgeSchedulerClient


class AwsSchedules:
    """`ports.Schedules`."""

    def __init__(self, client: "EventBridgeSchedulerClient") -> None:
        self._client = client

    def load(self, name: str) -> DeployedSchedule | None:
        try:
            answer = self._client.get_schedule(Name=name)
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
            return None
        created_at = answer["CreationDate"]
        return DeployedSchedule(
            arn=answer["Arn"],
            expression=answer["ScheduleExpression"],
            timezone=answer.get("ScheduleExpressionTimezone", "UTC"),
            is_enabled=answer["State"] == "ENABLED",
            created_at=max(created_at, answer.get("StartDate") or created_at),
            changed_at=answer["LastModificationDate"],
            template=answer["Target"].get("Input", "{}"),
        )
