"""Names and values of the variables that a stage gives its jobs. Imports no CDK."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from longhaul.core.secret_refs import SecretRef

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
