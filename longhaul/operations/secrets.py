"""The secrets of the stages of a deployed stack: which there are, and setting one on this machine.

Used by `longhaul secret` and `longhaul check`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError
from pydantic import TypeAdapter

from longhaul.core.aws_errors import code_of
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import JOB_VARIABLES, JobVariables
from longhaul.engines.fargate.ends import CONTAINER
from longhaul.operations.stack import Stack

_VARIABLES: Final = TypeAdapter(dict[str, JobVariables])
_NOT_THERE: Final = "ResourceNotFoundException"
# moto gives a secret the end of its ARN that this tag says.
_END_OF_ARN: Final = "_custom_id_"
_LENGTH_OF_END: Final = 6


@dataclass(frozen=True)
class StageSecret:
    """A secret that a stage's settings name."""

    stage: str
    variable: str
    text: str

    @property
    def ref(self) -> SecretRef:
        return SecretRef.parse(self.text)


def stage_secrets(stack: Stack) -> Iterator[StageSecret]:
    """Those that the stack's tasks know."""
    for arn in sorted(stack.physical("AWS::ECS::TaskDefinition").values()):
        definition: Any = stack.client("ecs").describe_task_definition(taskDefinition=arn)
        for container in definition["taskDefinition"]["containerDefinitions"]:
            if container["name"] == CONTAINER:
                named = {each["name"]: each["value"] for each in container.get("environment", [])}
                known = _VARIABLES.validate_json(named.get(JOB_VARIABLES, "{}"), extra="ignore")
                for stage, own in known.items():
                    for variable, text in own.secrets.items():
                        yield StageSecret(stage, variable, text)
                return  # the others have the same


def is_there(stack: Stack, ref: SecretRef) -> bool:
    """Whether there is such a secret, which is not being deleted. Its value is not asked for.

    Raises:
        ClientError: the caller may not ask.
    """
    if ref.service == "ssm":
        # By its path, or as a name that has none.
        names = [_parameter(ref), _parameter(ref).removeprefix("/")]
        filters = [{"Key": "Name", "Option": "Equals", "Values": names}]
        pager = stack.client("ssm").get_paginator("describe_parameters")
        # AWS may answer with a page that has none, and a token for the next.
        return any(page["Parameters"] for page in pager.paginate(ParameterFilters=filters))
    try:
        said: Any = stack.client("secretsmanager").describe_secret(SecretId=ref.arn)
    except ClientError as error:
        if code_of(error) != _NOT_THERE:
            raise
        return False
    return said.get("DeletedDate") is None


def put(stack: Stack, ref: SecretRef, value: str) -> None:
    """Set it, in the embedded AWS. Of a secret with a key only that key changes.

    Raises:
        ValueError: there is to be a key, and what is there is no JSON object.
    """
    if ref.service == "ssm":
        stack.client("ssm").put_parameter(
            Name=_parameter(ref), Value=value, Type="SecureString", Overwrite=True
        )
        return
    client: Any = stack.client("secretsmanager")
    try:
        before: str | None = client.get_secret_value(SecretId=ref.arn).get("SecretString")
    except ClientError:
        before = None
    if ref.key:
        document = json.loads(before or "{}")
        if not isinstance(document, dict):
            raise ValueError("it holds no JSON object")
        value = json.dumps({**document, ref.key: value})
    if before is not None:
        client.put_secret_value(SecretId=ref.arn, SecretString=value)
        return
    name = ref.arn.partition(":secret:")[2]
    client.create_secret(
        Name=name[: -_LENGTH_OF_END - 1],
        SecretString=value,
        Tags=[{"Key": _END_OF_ARN, "Value": name[-_LENGTH_OF_END:]}],
    )


def _parameter(ref: SecretRef) -> str:
    """The name of a parameter, as a path."""
    return "/" + ref.arn.partition(":parameter/")[2]
