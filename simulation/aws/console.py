"""Services that the console asks: CloudFormation, EC2, IAM, Lambda, logs, quotas, SSM, STS.

They return what the test has set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from simulation.aws.service import (
    ACCOUNT,
    Answer,
    Gate,
    Pages,
    RefusedError,
    Service,
    known,
    operation,
)


@dataclass(eq=False, repr=False)
class FakeSts(Service):
    service = "sts"

    arn: str = f"arn:aws:sts::{ACCOUNT}:assumed-role/Operator/me"

    @operation
    def get_caller_identity(self) -> Answer:
        return {"Account": ACCOUNT, "Arn": self.arn, "UserId": "AIDAEXAMPLE"}


@dataclass(eq=False, repr=False)
class FakeIam(Service):
    service = "iam"

    ecs_used: bool = True  # then the account has the service-linked role of ECS

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


@dataclass(eq=False, repr=False)
class FakeSsm(Service):
    """The parameters of a bootstrapped account."""

    service = "ssm"
    paginators: ClassVar[Pages] = {"describe_parameters": (("NextToken", "NextToken"),)}

    parameters: dict[str, str] = field(
        default_factory=lambda: {"/cdk-bootstrap/hnb659fds/version": "27"}
    )

    @operation
    def get_parameter(self, *, Name: str) -> Answer:
        value = known(self.parameters, Name, "ParameterNotFound", "")
        return {"Parameter": {"Name": Name, "Type": "String", "Value": value}}

    @operation
    def describe_parameters(
        self, *, ParameterFilters: Sequence[Mapping[str, Any]], NextToken: str = ""
    ) -> Answer:
        if not NextToken:  # "the number of items returned can be between zero and MaxResults"
            return {"Parameters": [], "NextToken": "more"}
        (named,) = ParameterFilters
        found = [name for name in named["Values"] if name in self.parameters]
        return {"Parameters": [{"Name": name, "Type": "String"} for name in found]}


@dataclass(eq=False, repr=False)
class FakeServiceQuotas(Service):
    service = "service-quotas"
    paginators: ClassVar[Pages] = {"list_service_quotas": (("NextToken", "NextToken"),)}

    quotas: dict[str, float] = field(
        default_factory=lambda: {"Fargate On-Demand vCPU resource count": 6_000.0}
    )

    @operation
    def list_service_quotas(self, *, ServiceCode: str) -> Answer:
        return {
            "Quotas": [
                {"ServiceCode": ServiceCode, "QuotaName": name, "Value": value}
                for name, value in self.quotas.items()
            ]
        }


@dataclass(eq=False, repr=False)
class FakeCloudWatch(Service):
    service = "cloudwatch"

    ringing: dict[str, str] = field(default_factory=dict)  # description, by name of the alarm

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


@dataclass
class DeployedStack:
    name: str
    description: str = "Longhaul: PySpark jobs of any length from an SQS queue"
    status: str = "CREATE_COMPLETE"
    outputs: dict[str, str] = field(default_factory=dict)
    # Type and physical id, by logical id.
    resources: dict[str, tuple[str, str]] = field(default_factory=dict)

    def described(self) -> Answer:
        return {
            "StackName": self.name,
            "Description": self.description,
            "StackStatus": self.status,
            "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
            "Outputs": [
                {"OutputKey": key, "OutputValue": value} for key, value in self.outputs.items()
            ],
        }


@dataclass(eq=False, repr=False)
class FakeCloudFormation(Service):
    service = "cloudformation"
    paginators: ClassVar[Pages] = {
        "describe_stacks": (("NextToken", "NextToken"),),
        "list_stack_resources": (("NextToken", "NextToken"),),
        "describe_change_set": (("NextToken", "NextToken"),),
        "describe_events": (("NextToken", "NextToken"),),
    }

    stacks: dict[str, DeployedStack] = field(default_factory=dict)
    change_sets: dict[str, list[str]] = field(default_factory=dict)  # the statuses to come, by name
    # Of the next change set: its statuses, why it failed, what it changes, what checks say.
    statuses: list[str] = field(default_factory=lambda: ["CREATE_IN_PROGRESS", "CREATE_COMPLETE"])
    reason: str = ""
    changes: list[Answer] = field(default_factory=list)
    events: list[Answer] = field(default_factory=list)

    @operation
    def describe_stacks(self, *, StackName: str | None = None) -> Answer:
        found = self.stacks.values() if StackName is None else [self._stack(StackName)]
        return {"Stacks": [stack.described() for stack in found]}

    @operation
    def list_stack_resources(self, *, StackName: str) -> Answer:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        found = [
            {
                "LogicalResourceId": logical,
                "ResourceType": kind,
                "PhysicalResourceId": physical,
                "LastUpdatedTimestamp": now,
                "ResourceStatus": "CREATE_COMPLETE",
            }
            for logical, (kind, physical) in self._stack(StackName).resources.items()
        ]
        return {"StackResourceSummaries": found}

    @operation
    def create_change_set(
        self,
        *,
        StackName: str,
        ChangeSetName: str,
        ChangeSetType: str,
        Capabilities: Sequence[str],  # noqa: ARG002 - named as boto3 names it
        TemplateURL: str,  # noqa: ARG002 - as above
    ) -> Answer:
        if ChangeSetType == "UPDATE":
            self._stack(StackName)
        elif StackName in self.stacks:
            raise RefusedError("ValidationError", f"Stack [{StackName}] already exists")
        else:
            self.stacks[StackName] = DeployedStack(StackName, status="REVIEW_IN_PROGRESS")
        self.change_sets[ChangeSetName] = [*self.statuses]
        return {"Id": f"arn:aws:cloudformation:us-east-1:123456789012:changeSet/{ChangeSetName}/1"}

    @operation
    def describe_change_set(self, *, StackName: str, ChangeSetName: str) -> Answer:
        statuses = self._statuses(StackName, ChangeSetName)
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        return {"Status": status, "StatusReason": self.reason, "Changes": self.changes}

    @operation
    def describe_events(self, *, StackName: str, ChangeSetName: str) -> Answer:
        self._statuses(StackName, ChangeSetName)
        return {"OperationEvents": self.events}

    @operation
    def delete_change_set(self, *, StackName: str, ChangeSetName: str) -> Answer:
        statuses = self._statuses(StackName, ChangeSetName)
        if statuses[0].endswith("IN_PROGRESS"):
            statuses.pop(0)
            raise RefusedError("InvalidChangeSetStatus")
        del self.change_sets[ChangeSetName]
        return {}

    @operation
    def delete_stack(self, *, StackName: str) -> Answer:
        if (stack := self.stacks.pop(StackName, None)) and stack.status != "REVIEW_IN_PROGRESS":
            raise AssertionError(f"{StackName} is a stack of somebody's")
        return {}

    def _statuses(self, stack: str, change_set: str) -> list[str]:
        self._stack(stack)
        return known(self.change_sets, change_set, "ChangeSetNotFound", "", 404)

    def _stack(self, name: str) -> DeployedStack:
        problem = f"Stack with id {name} does not exist"
        return known(self.stacks, name, "ValidationError", problem)


@dataclass(eq=False, repr=False)
class FakeLambda(Service):
    service = "lambda"

    functions: dict[str, dict[str, str]] = field(default_factory=dict)  # environment, by name
    concurrency: int = 1_000
    mappings: list[dict[str, Any]] = field(default_factory=list)

    @operation
    def get_function_configuration(self, *, FunctionName: str) -> Answer:
        problem = f"Function not found: {FunctionName}"
        variables = known(self.functions, FunctionName, "ResourceNotFoundException", problem, 404)
        return {
            "FunctionName": FunctionName,
            "State": "Active",
            "Environment": {"Variables": variables},
        }

    @operation
    def get_account_settings(self) -> Answer:
        return {"AccountLimit": {"UnreservedConcurrentExecutions": self.concurrency}}

    @operation
    def list_event_source_mappings(self, *, EventSourceArn: str) -> Answer:
        return {
            "EventSourceMappings": [
                each for each in self.mappings if each["EventSourceArn"] == EventSourceArn
            ]
        }


Line = tuple[int, str]
"""Epoch milliseconds and text."""


class FakeLogs(Service):
    service = "logs"
    paginators: ClassVar[Pages] = {"filter_log_events": (("nextToken", "nextToken"),)}

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate, now)
        self.groups: dict[str, dict[str, list[Line]]] = {}
        self.page_size = 10_000

    def write(self, group: str, stream: str, *texts: str) -> None:
        at = round(self._now().timestamp() * 1000)
        self.groups.setdefault(group, {}).setdefault(stream, []).extend(
            (at, text) for text in texts
        )

    @operation
    def get_log_events(
        self,
        *,
        logGroupName: str,
        logStreamName: str,
        startFromHead: bool,
        nextToken: str | None = None,
        limit: int | None = None,
    ) -> Answer:
        """A page of a stream, from its head or its tail.

        At the end of the stream the response has the token of the request.
        """
        size = limit or self.page_size
        problem = "The specified log stream does not exist."
        streams = self._group(logGroupName)
        lines = known(streams, logStreamName, "ResourceNotFoundException", problem)
        head = 0 if startFromHead else max(0, len(lines) - size)
        start = int(nextToken.removeprefix("f/")) if nextToken else head
        page = lines[start : start + size]
        events = [{"timestamp": at, "message": text, "ingestionTime": at} for at, text in page]
        return {
            "events": events,
            "nextForwardToken": f"f/{start + len(page)}",
            "nextBackwardToken": f"b/{start}",
        }

    @operation
    def filter_log_events(
        self,
        *,
        logGroupName: str,
        filterPattern: str,
        startTime: int = 0,
        nextToken: str | None = None,
    ) -> Answer:
        """Matching lines; an empty page may still have a next one."""
        if not (
            filterPattern.startswith('"')
            and filterPattern.endswith('"')
            and filterPattern.count('"') == 2
        ):
            raise NotImplementedError("this fake knows one quoted phrase")
        everything = sorted(
            (at, stream, text)
            for stream, lines in self._group(logGroupName).items()
            for at, text in lines
        )
        start = int(nextToken or 0)
        page = everything[start : start + self.page_size]
        events = [
            {
                "logStreamName": stream,
                "timestamp": at,
                "message": text,
                "ingestionTime": at,
                "eventId": f"{start + n}",
            }
            for n, (at, stream, text) in enumerate(page)
            if at >= startTime and filterPattern[1:-1] in text
        ]
        more = {"nextToken": str(start + len(page))} if start + len(page) < len(everything) else {}
        return {"events": events, "searchedLogStreams": [], **more}

    def _group(self, name: str) -> dict[str, list[Line]]:
        problem = "The specified log group does not exist."
        return known(self.groups, name, "ResourceNotFoundException", problem)
