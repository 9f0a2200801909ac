"""The schedules of a stack, as EventBridge Scheduler has them."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack


@dataclass(frozen=True)
class StageSchedule:
    """When jobs are sent to a stage: `cron(…)` of a time zone, or `rate(…)` since it was made."""

    stage: str
    expression: str
    zone: str
    made_at: datetime
    is_on: bool


def schedules(stack: "Stack") -> list[StageSchedule]:
    """One call for each stage that has a schedule, in the order of the stages."""
    found = {}
    for name in stack.physical("AWS::Scheduler::Schedule").values():
        answer = stack.client("scheduler").get_schedule(Name=name)
        found[json.loads(answer["Target"]["Input"])["QueueUrl"]] = answer
    return [
        StageSchedule(
            stage.name,
            answer["ScheduleExpression"],
            answer["ScheduleExpressionTimezone"],
            answer["CreationDate"],
            answer["State"] == "ENABLED",
        )
        for stage in stack.settings.stages
        if (answer := found.get(stage.queue_url)) is not None
    ]
