"""Services that `longhaul check` asks: STS, IAM, SSM, quotas, alarms.

They return what the test has set.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from simulation.aws.service import ACCOUNT, Answer, Gate, Pages, RefusedError, Service, operation


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
        self.ecs_used = True  # then the account has the service-linked role of ECS

    @operation
    def create_service_linked_role(self, *, AWSServiceName: str) -> Answer:
        if AWSServiceName != "ecs.amazonaws.com":
            raise NotImplementedError(AWSServiceName)
        self.ecs_used = True
        return self.get_role(RoleName="AWSServiceRoleForECS")

    @operation
    def get_role(self, *, RoleName: str) -> Answer:
        if RoleName == "AWSServiceRoleForECS" and not self.ecs_used:
            raise RefusedError(
                "NoSuchEntity", f"The role with name {RoleName} cannot be found.", status=404
            )
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


class FakeSsm(Service):
    """The parameters of a bootstrapped account."""

    service = "ssm"
    paginators: ClassVar[Pages] = {"describe_parameters": (("NextToken", "NextToken"),)}

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.parameters = {"/cdk-bootstrap/hnb659fds/version": "27"}

    @operation
    def get_parameter(self, *, Name: str) -> Answer:
        if Name not in self.parameters:
            raise RefusedError("ParameterNotFound")
        return {"Parameter": {"Name": Name, "Type": "String", "Value": self.parameters[Name]}}

    @operation
    def describe_parameters(
        self, *, ParameterFilters: Sequence[Mapping[str, Any]], NextToken: str = ""
    ) -> Answer:
        if not NextToken:  # "the number of items returned can be between zero and MaxResults"
            return {"Parameters": [], "NextToken": "more"}
        (named,) = ParameterFilters
        found = [name for name in named["Values"] if name in self.parameters]
        return {"Parameters": [{"Name": name, "Type": "String"} for name in found]}


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
                {"ServiceCode": ServiceCode, "QuotaName": name, "Value": value}
                for name, value in self.quotas.items()
            ]
        }


class FakeCloudWatch(Service):
    service = "cloudwatch"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.ringing: dict[str, str] = {}  # description, by name of the alarm

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
