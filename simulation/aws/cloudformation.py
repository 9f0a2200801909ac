"""CloudFormation in memory: deployed stacks."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from simulation.aws.service import Answer, Gate, Pages, RefusedError, Service, operation


@dataclass
class DeployedStack:
    name: str
    description: str = "Longhaul: PySpark jobs of any length from an SQS queue"
    status: str = "CREATE_COMPLETE"
    outputs: dict[str, str] = field(default_factory=dict)
    # Type and physical id, by logical id.
    resources: dict[str, tuple[str, str]] = field(default_factory=dict)
    template: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, str] = field(
        default_factory=lambda: {"BootstrapVersion": "/cdk-bootstrap/hnb659fds/version"}
    )

    def described(self) -> Answer:
        return {
            "StackName": self.name,
            "Description": self.description,
            "StackStatus": self.status,
            "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
            "Outputs": [
                {"OutputKey": key, "OutputValue": value} for key, value in self.outputs.items()
            ],
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value, "ResolvedValue": "27"}
                for key, value in self.parameters.items()
            ],
        }


class FakeCloudFormation(Service):
    service = "cloudformation"
    paginators: ClassVar[Pages] = {
        "describe_stacks": (("NextToken", "NextToken"),),
        "list_stack_resources": (("NextToken", "NextToken"),),
    }

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.stacks: dict[str, DeployedStack] = {}

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
    def get_template(self, *, StackName: str) -> Answer:
        return {"TemplateBody": json.dumps(self._stack(StackName).template)}

    def _stack(self, name: str) -> DeployedStack:
        if name not in self.stacks:
            raise RefusedError("ValidationError", f"Stack with id {name} does not exist")
        return self.stacks[name]
