"""Services that `longhaul check` asks: STS, IAM, quotas, metrics, alarms, rules.

They return what the test has set.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from simulation.aws.notified import FakeEventBuses
from simulation.aws.service import ACCOUNT, Answer, Gate, Pages, RefusedError, Service, operation


class FakeSts(Service):
    service = "sts"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/Operator/me"

    @operation
    def get_caller_identity(self) -> Answer:
        return {"Account": ACCOUNT, "Arn": self.arn, "UserId": "AIDAEXAMPLE"}


_ARN_TEMPLATES = {
    "kms": "arn:${Partition}:kms:${Region}:${Account}:key/${KeyId}",
    "secretsmanager": "arn:${Partition}:secretsmanager:${Region}:${Account}:secret:${SecretId}",
    "ssm": "arn:${Partition}:ssm:${Region}:${Account}:parameter/${ParameterName}",
    "dynamodb": "arn:${Partition}:dynamodb:${Region}:${Account}:table/${TableName}",
    "logs": "arn:${Partition}:logs:${Region}:${Account}:log-group:${LogGroupName}",
    "s3": "arn:${Partition}:s3:::${BucketName}/${KeyName}",
    "sqs": "arn:${Partition}:sqs:${Region}:${Account}:${QueueName}",
}


class FakeIam(Service):
    service = "iam"
    paginators: ClassVar[Pages] = {"simulate_principal_policy": (("Marker", "Marker"),)}

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.denied: set[str] = set()
        self.simulated: list[str] = []  # principals
        self.ecs_used = True  # then the account has the service-linked role of ECS
        self.policies: set[str] = set()  # by ARN

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

    @operation
    def get_policy(self, *, PolicyArn: str) -> Answer:
        if PolicyArn not in self.policies:
            raise RefusedError("NoSuchEntity", f"Policy {PolicyArn} was not found.", status=404)
        return {"Policy": {"Arn": PolicyArn, "PolicyName": PolicyArn.rpartition("/")[2]}}

    @operation
    def simulate_principal_policy(
        self,
        *,
        PolicySourceArn: str,
        ActionNames: Sequence[str],
        ResourceArns: Sequence[str],
        Marker: str = "0",
    ) -> Answer:
        """IAM may give fewer results than are left: here one a page."""
        self.simulated.append(PolicySourceArn)
        n = int(Marker)
        answer: Answer = {
            "EvaluationResults": [self._result(ActionNames[n], ResourceArns)],
            "IsTruncated": n + 1 < len(ActionNames),
        }
        return answer | ({"Marker": str(n + 1)} if answer["IsTruncated"] else {})

    def _result(self, action: str, resources: Sequence[str]) -> Answer:
        """One for each action. Only the results inside it name resources."""
        decision = "implicitDeny" if action in self.denied else "allowed"
        return {
            "EvalActionName": action,
            "EvalResourceName": _ARN_TEMPLATES[action.partition(":")[0]],
            "EvalDecision": decision,
            "ResourceSpecificResults": [
                {"EvalResourceName": resource, "EvalResourceDecision": decision}
                for resource in resources
            ],
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


class FakeKms(Service):
    service = "kms"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.managers: dict[str, str] = {}  # CUSTOMER or AWS, by ARN

    @operation
    def describe_key(self, *, KeyId: str) -> Answer:
        for arn, manager in self.managers.items():
            if KeyId in (arn, arn.rpartition("/")[2]):
                return {"KeyMetadata": {"KeyId": KeyId, "Arn": arn, "KeyManager": manager}}
        raise RefusedError("NotFoundException", f"Invalid keyId {KeyId}")


class FakeLakeFormation(Service):
    """A lake that is governed by IAM alone, as in an account that never used Lake Formation."""

    service = "lakeformation"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        opened = self.granted("IAM_ALLOWED_PRINCIPALS", "ALL")
        self.admins: list[str] = []
        self.defaults = [opened]
        self.in_catalog = [self.granted("IAM_ALLOWED_PRINCIPALS", "CREATE_DATABASE")]
        self.in_databases: dict[str, list[Answer]] = {}  # by name

    @staticmethod
    def granted(principal: str, *permissions: str) -> Answer:
        return {
            "Principal": {"DataLakePrincipalIdentifier": principal},
            "Permissions": list(permissions),
        }

    @operation
    def get_data_lake_settings(self) -> Answer:
        return {
            "DataLakeSettings": {
                "DataLakeAdmins": [{"DataLakePrincipalIdentifier": each} for each in self.admins],
                "CreateDatabaseDefaultPermissions": self.defaults,
                "CreateTableDefaultPermissions": self.defaults,
            }
        }

    @operation
    def list_permissions(self, *, Resource: dict[str, Any]) -> Answer:
        if "Catalog" in Resource:
            grants = self.in_catalog
        else:
            grants = self.in_databases.get(Resource["Database"]["Name"], [])
        return {"PrincipalResourcePermissions": grants}


class FakeServiceQuotas(Service):
    service = "service-quotas"
    paginators: ClassVar[Pages] = {"list_service_quotas": (("NextToken", "NextToken"),)}

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.quotas: dict[str, float] = {
            "Fargate On-Demand vCPU resource count": 6_000.0,
            "VPCs per Region": 5.0,
            "Internet gateways per Region": 5.0,
            "Gateway VPC endpoints per Region": 20.0,
            "Network interfaces per Region": 5_000.0,
        }

    @operation
    def list_service_quotas(self, *, ServiceCode: str) -> Answer:
        return {
            "Quotas": [
                {"ServiceCode": ServiceCode, "QuotaName": name, "Value": value}
                for name, value in self.quotas.items()
                if name.startswith("Fargate") is (ServiceCode == "fargate")
            ]
        }


class FakeCloudWatch(Service):
    service = "cloudwatch"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.sweeps = {"Longhaul": 4.0}  # by namespace
        self.ringing: dict[str, str] = {}  # description, by name of the alarm

    @operation
    def get_metric_statistics(
        self, *, Namespace: str, MetricName: str, EndTime: datetime, **_: Any
    ) -> Answer:
        if MetricName != "Sweeps":
            raise NotImplementedError(MetricName)
        sweeps = self.sweeps.get(Namespace)
        return {
            "Label": MetricName,
            "Datapoints": [{"Timestamp": EndTime, "Sum": sweeps}] if sweeps else [],
        }

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


class FakeEvents(FakeEventBuses):
    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.rules: dict[str, str] = {}  # state, by name

    @operation
    def describe_rule(self, *, Name: str) -> Answer:
        if Name not in self.rules:
            raise RefusedError(
                "ResourceNotFoundException", f"Rule {Name} does not exist on EventBus default."
            )
        return {"Name": Name, "State": self.rules[Name]}
