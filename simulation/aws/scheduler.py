"""EventBridge Scheduler in memory: schedules of the default group, which a test makes."""

from datetime import datetime
from typing import Any

from simulation.aws.service import ACCOUNT, REGION, Answer, Gate, RefusedError, Service, operation


class FakeScheduler(Service):
    service = "scheduler"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.schedules: dict[str, dict[str, Any]] = {}

    def put(self, name: str, *, at: datetime, **properties: Any) -> None:
        """Make the schedule, or change it."""
        made = self.schedules.get(name, {"CreationDate": at, "State": "ENABLED"})
        self.schedules[name] = made | properties | {"LastModificationDate": at}

    @operation
    def get_schedule(self, *, Name: str) -> Answer:
        if Name not in self.schedules:
            raise RefusedError(
                "ResourceNotFoundException", f"Schedule {Name} does not exist.", status=404
            )
        arn = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/{Name}"
        return {"Name": Name, "GroupName": "default", "Arn": arn, **self.schedules[Name]}
