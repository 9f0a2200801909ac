"""The settings of a stage: its alarms, rights and variables, and what each may be.

Imports no CDK.
"""

import re
from typing import Annotated, Final, Literal, NamedTuple, cast

from pydantic import AfterValidator, BeforeValidator, Field

from longhaul.config.starts import Schedule, Trigger
from longhaul.core.results import METRIC_RULE, metric_problem
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import AdvancedStageSettings, Model, StageSettings

# What the CDK has in the place of a name that CloudFormation will give.
TO_COME: Final = r"\$\{Token\[[^\]]+\]\}"

# By its name, with a path if it has one, or by its ARN.
PolicyName = Annotated[
    str,
    Field(
        pattern=r"^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy/)?"
        r"([A-Za-z0-9._+=,@-]+/)*[A-Za-z0-9._+=,@-]{1,128}$"
    ),
]
RoleArn = Annotated[
    str,
    Field(
        pattern=rf"^(arn:aws[a-z-]*:iam::\d{{12}}:role/([\w+=,.@-]+/)*[\w+=,.@-]{{1,64}}|{TO_COME})$"
    ),
]


def _several(value: object) -> object:
    """IAM takes one text for a list of one."""
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


_Texts = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]


class Statement(Model):
    """A statement of a policy, in IAM's own words."""

    # Tells it from others.
    Sid: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$")] | None = None
    # What is denied is denied to the jobs, whatever else allows it.
    Effect: Literal["Allow", "Deny"]
    # `service:Action`, one or several.
    Action: _Texts
    # ARNs, or `*`: for actions that know no resource.
    Resource: _Texts
    # As in IAM: operator → key → one value or several.
    Condition: dict[str, dict[str, _Texts]] = Field(default_factory=dict)


# The task definition has room for more; a function's environment for fewer, which synth looks at.
MAX_VARIABLES: Final = 50

# With another value of these the runner, Python, the JVM, Spark or the SDK would not do their work,
# or not with the stage's role.
_TAKEN: Final = re.compile(
    r"(LONGHAUL|AWS|ECS|LAMBDA|EMR|SPARK|PYSPARK|PYTHON|JAVA|JDK|_JAVA|HADOOP|YARN|LD|LC|_X)_.*"
    r"|AMAZON.*|PYTHON.*|_HANDLER|PATH|HOME|USER|PWD|SHELL|LANG|TZ|IFS|ENV|BASH_ENV"
    r"|TMP|TEMP|TMPDIR|HOSTNAME|CLASSPATH"
)


def _name(name: str) -> str:
    if _TAKEN.fullmatch(name.upper()):
        raise ValueError(
            f"{name!r} belongs to Longhaul, AWS, Spark or the system: give the variable another "
            "name"
        )
    return name


def _value(text: str) -> str:
    if "{{resolve:" in text:
        raise ValueError(
            "CloudFormation would put the value in its place, for all to read who see the task "
            "definition: name a secret by its ARN in secrets"
        )
    return text


def _secret(text: str) -> str:
    SecretRef.parse(text)
    return text


VariableName = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"), AfterValidator(_name)
]
VariableValue = Annotated[str, Field(max_length=4_096), AfterValidator(_value)]
SecretArn = Annotated[str, AfterValidator(_secret)]


Comparison = Literal[">", ">=", "<", "<="]

_EXPRESSION: Final = re.compile(
    r"(?P<job>\S{1,250}): *(?P<metric>\S+) *(?P<comparison>>=|<=|>|<) *"
    r"(?P<threshold>-?[0-9]{1,15}(\.[0-9]{1,9})?)"
)


class Watched(NamedTuple):
    """What an alarm looks at. It rings when a value compares so with the threshold."""

    job: str
    metric: str
    comparison: Comparison
    threshold: float


def watched(expression: str) -> Watched:
    """The parts of an expression, such as `parse: bad_rows > 100`.

    Raises:
        ValueError: it is none.
    """
    found = _EXPRESSION.fullmatch(expression)
    if found is None or metric_problem(found["metric"]):
        raise ValueError(
            f"{expression[:100]!r} is no alarm: write `JOB: METRIC > NUMBER`, as in"
            f" `parse: bad_rows > 100`, with >, >=, < or <=; a metric is {METRIC_RULE}"
        )
    comparison = cast("Comparison", found["comparison"])
    return Watched(found["job"], found["metric"], comparison, float(found["threshold"]))


def _checked(expression: str) -> str:
    watched(expression)
    return expression


MetricAlarm = Annotated[str, AfterValidator(_checked)]
"""An expression that `watched` takes."""


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
