"""The settings of a stage. Imports no CDK."""

from typing import Annotated

from pydantic import Field

from longhaul.config.metric_alarm import MetricAlarm
from longhaul.config.policies import PolicyName, RoleArn, Statement
from longhaul.config.starts import Schedule, Trigger
from longhaul.config.variables import MAX_VARIABLES, SecretArn, VariableName, VariableValue
from longhaul.core.settings import AdvancedStageSettings, StageSettings


class AdvancedStageDeployment(AdvancedStageSettings):
    """What few stages set: limits, rights, variables, notices, and when a job is given up."""

    # A job that waits longer raises an alarm.
    max_wait_s: int = Field(default=86_400, ge=300)
    # Expressions over what its jobs measure, such as `parse: bad_rows > 100`.
    alarms: Annotated[tuple[MetricAlarm, ...], Field(max_length=50)] = ()
    # A job for each object that is created below a prefix.
    on_object: Trigger | None = None
    # What its jobs may do beside what its limits open to them: statements in IAM's own words
    # (docs/stages.md#rights).
    policies: tuple[Statement, ...] = ()
    # For the same, managed policies: of the account by name, AWS's own by ARN. A role has ten, or
    # twenty.
    managed_policies: Annotated[tuple[PolicyName, ...], Field(max_length=20)] = ()
    # The ARN of a role of yours, in the place of the stack's (docs/stages.md#a-role-of-your-own).
    role: RoleArn | None = None
    # Variables of the environment in which its jobs run. Not for secrets: the template shows them.
    environment: Annotated[dict[VariableName, VariableValue], Field(max_length=MAX_VARIABLES)] = (
        Field(default_factory=dict)
    )
    # Variables that each attempt reads when it begins: by name, the ARN of a secret or of a
    # parameter of SSM (docs/stages.md).
    secrets: Annotated[dict[VariableName, SecretArn], Field(max_length=MAX_VARIABLES)] = Field(
        default_factory=dict
    )


class StageDeployment(StageSettings):
    """A stage: a queue, how many of its jobs run at once, and what follows from a success."""

    # A job that recurs.
    schedule: Schedule | None = None
    # What few stages set.
    advanced: AdvancedStageDeployment = AdvancedStageDeployment()


def queue_prefix(stack_name: str, stage: str) -> str:
    """How the names of a stage's queues begin."""
    return f"{stack_name}-{stage}"


def pascal(name: str) -> str:
    """`clean_up` as `CleanUp`: a stage's name in construct ids and outputs."""
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))
