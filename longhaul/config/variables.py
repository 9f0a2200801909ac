"""Names and values of the variables that a stage gives its jobs. Imports no CDK."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, Field

from longhaul.domain.secret_refs import SecretRef
from longhaul.settings import JobVariables

if TYPE_CHECKING:
    from longhaul.config.stages import StageDeployment

# The task definition has room for more; a function's environment for fewer, which synth looks at.
MAX_VARIABLES: Final = 50

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# With another value of these the runner, Python, the JVM, Spark or the SDK would not do their work,
# or not with the stage's role.
_TAKEN: Final = re.compile(
    r"(LONGHAUL|AWS|ECS|LAMBDA|EMR|SPARK|PYSPARK|PYTHON|JAVA|JDK|_JAVA|HADOOP|YARN|LD|LC|_X)_.*"
    r"|AMAZON.*|PYTHON.*|_HANDLER|PATH|HOME|USER|PWD|SHELL|LANG|TZ|IFS|ENV|BASH_ENV"
    r"|TMP|TEMP|TMPDIR|HOSTNAME|CLASSPATH"
)


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name of a variable: letters, digits and _, no digit first, at most 128"
        )
    if _TAKEN.fullmatch(name.upper()):
        raise ValueError(
            f"{name!r} belongs to Longhaul, AWS, Spark or the system: give the variable another "
            "name"
        )
    return name


def _value(text: str) -> str:
    if "\0" in text:
        raise ValueError("a variable cannot hold the character NUL")
    if "{{resolve:" in text:
        raise ValueError(
            "CloudFormation would put the value in its place, for all to read who see the task "
            "definition: name a secret by its ARN in secrets"
        )
    return text


def _secret(text: str) -> str:
    SecretRef.parse(text)
    return text


VariableName = Annotated[str, AfterValidator(_name)]
VariableValue = Annotated[str, Field(max_length=4_096), AfterValidator(_value)]
SecretArn = Annotated[str, AfterValidator(_secret)]


def variables_of(stages: Iterable["StageDeployment"]) -> dict[str, JobVariables]:
    """By stage, what its jobs find in their environment; only of stages that have any."""
    return {
        each.name: JobVariables(
            environment=each.advanced.environment, secrets=each.advanced.secrets
        )
        for each in stages
        if each.advanced.environment or each.advanced.secrets
    }


def as_json(variables: Mapping[str, JobVariables]) -> str:
    """The value of the tasks' variable `longhaul.settings.JOB_VARIABLES`."""
    content = {name: each.model_dump(exclude_defaults=True) for name, each in variables.items()}
    return json.dumps(content, separators=(",", ":"))
