"""CloudFormation in memory: deployed stacks, and change sets that nobody executes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from simulation.aws.service import Answer, Gate, Pages, RefusedError, Service, operation


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


class FakeCloudFormation(Service):
    service = "cloudformation"
    paginators: ClassVar[Pages] = {
        "describe_stacks": (("NextToken", "NextToken"),),
        "list_stack_resources": (("NextToken", "NextToken"),),
        "describe_change_set": (("NextToken", "NextToken"),),
        "describe_events": (("NextToken", "NextToken"),),
    }

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.stacks: dict[str, DeployedStack] = {}
        self.change_sets: dict[str, list[str]] = {}  # the statuses to come, by name
        # Of the next change set: its statuses, why it failed, what it changes, what checks say.
        self.statuses = ["CREATE_IN_PROGRESS", "CREATE_COMPLETE"]
        self.reason = ""
        self.changes: list[Answer] = []
        self.events: list[Answer] = []

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
        self._stack(StackName)
        statuses = self.change_sets[ChangeSetName]
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        return {"Status": status, "StatusReason": self.reason, "Changes": self.changes}

    @operation
    def describe_events(self, *, StackName: str, ChangeSetName: str) -> Answer:
        self._stack(StackName)
        if ChangeSetName not in self.change_sets:
            raise RefusedError("ChangeSetNotFound", status=404)
        return {"OperationEvents": self.events}

    @operation
    def delete_change_set(self, *, StackName: str, ChangeSetName: str) -> Answer:
        self._stack(StackName)
        if ChangeSetName not in self.change_sets:
            raise RefusedError("ChangeSetNotFound", status=404)
        statuses = self.change_sets[ChangeSetName]
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

    def _stack(self, name: str) -> DeployedStack:
        if name not in self.stacks:
            raise RefusedError("ValidationError", f"Stack with id {name} does not exist")
        return self.stacks[name]
