"""What only a look at a whole account asks: who we are, what we may do, quotas, metrics, alarms, rules. Set by the test, answered as it is."""
# ruff: noqa: N803 - botocore's names of arguments

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from tests.fakes.service import ACCOUNT, Answer, Gate, Pages, RefusedError, Service, operation


class FakeSts(Service):
    service = "sts"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/Operator/me"

    @operation
    def get_caller_identity(self) -> Answer:
        return {"Account": ACCOUNT, "Arn": self.arn, "UserId": "AIDAEXAMPLE"}


class FakeIam(Service):
    service = "iam"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.denied: set[str] = set()
        self.simulated: list[str] = []  # principals

    @operation
    def get_role(self, *, RoleName: str) -> Answer:
        arn = f"arn:aws:iam::{ACCOUNT}:role/path/{RoleName}"
        date = datetime(2026, 1, 1, tzinfo=UTC)
        return {
            "Role": {
                "Arn": arn,
                "RoleName": RoleName,
                "Path": "/path/",
                "RoleId": "AROAEXAMPLE123456",
                "CreateDate": date,
            }
        }

    @operation
    def simulate_principal_policy(
        self, *, PolicySourceArn: str, ActionNames: Sequence[str], ResourceArns: Sequence[str]
    ) -> Answer:
        self.simulated.append(PolicySourceArn)
        return {
            "EvaluationResults": [
                {
                    "EvalActionName": action,
                    "EvalResourceName": resource,
                    "EvalDecision": "implicitDeny" if action in self.denied else "allowed",
                }
                for action in ActionNames
                for resource in ResourceArns
            ]
        }


class FakeServiceQuotas(Service):
    service = "service-quotas"
    paginators: ClassVar[Pages] = {"list_service_quotas": (("NextToken", "NextToken"),)}

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.quotas: dict[str, float] = {"Fargate On-Demand vCPU resource count": 6_000.0}

    @operation
    def list_service_quotas(self, *, ServiceCode: str) -> Answer:
        return {
            "Quotas": [
                {"ServiceCode": ServiceCode, "QuotaName": name, "Value": value} for name, value in self.quotas.items()
            ]
        }


class FakeCloudWatch(Service):
    service = "cloudwatch"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.sweeps = 4.0
        self.ringing: dict[str, str] = {}  # description, by name of the alarm

    @operation
    def get_metric_statistics(self, *, Namespace: str, MetricName: str, EndTime: datetime, **_: Any) -> Answer:
        if (Namespace, MetricName) != ("Longhaul", "Sweeps"):
            raise NotImplementedError(MetricName)
        return {"Label": MetricName, "Datapoints": [{"Timestamp": EndTime, "Sum": self.sweeps}] if self.sweeps else []}

    @operation
    def describe_alarms(self, *, AlarmNames: Sequence[str]) -> Answer:
        return {
            "MetricAlarms": [
                {
                    "AlarmName": name,
                    "AlarmDescription": self.ringing.get(name, name),
                    "StateValue": "ALARM" if name in self.ringing else "OK",
                }
                for name in AlarmNames
            ]
        }


class FakeEvents(Service):
    service = "events"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.rules: dict[str, str] = {}  # state, by name

    @operation
    def describe_rule(self, *, Name: str) -> Answer:
        if Name not in self.rules:
            raise RefusedError("ResourceNotFoundException", f"Rule {Name} does not exist on EventBus default.")
        return {"Name": Name, "State": self.rules[Name]}
