"""The secrets of the stages of a deployed stack, without their values."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from botocore.exceptions import ClientError
from pydantic import TypeAdapter

from longhaul.adapters.errors import code_of
from longhaul.cli.target import Target
from longhaul.domain.secret_refs import SecretRef
from longhaul.engines.fargate.ends import CONTAINER
from longhaul.settings import JOB_VARIABLES, JobVariables

_VARIABLES: Final = TypeAdapter(dict[str, JobVariables])
_NOT_THERE: Final = "ResourceNotFoundException"
# Customers' keys alone need a right of their own.
_KEYS_OF_AWS: Final = (None, "", "alias/aws/secretsmanager", "alias/aws/ssm")


@dataclass(frozen=True)
class StageSecret:
    """A secret that a stage's settings name."""

    stage: str
    variable: str
    text: str

    @property
    def ref(self) -> SecretRef:
        return SecretRef.parse(self.text)


@dataclass(frozen=True)
class Existence:
    """What a service says of a secret that is there. `key`: a customer's KMS key, or None."""

    changed_at: datetime | None
    is_being_deleted: bool
    key: str | None


def deployed_variables(target: Target) -> Mapping[str, JobVariables]:
    """By stage, what its jobs find in their environment, as the stack's tasks know it."""
    for arn in sorted(target.physical("AWS::ECS::TaskDefinition").values()):
        definition: Any = target.client("ecs").describe_task_definition(taskDefinition=arn)
        for container in definition["taskDefinition"]["containerDefinitions"]:
            if container["name"] == CONTAINER:
                named = {each["name"]: each["value"] for each in container.get("environment", [])}
                return _VARIABLES.validate_json(named.get(JOB_VARIABLES, "{}"), extra="ignore")
    return {}


def stage_secrets(target: Target) -> Iterator[StageSecret]:
    for stage, own in deployed_variables(target).items():
        for variable, text in own.secrets.items():
            yield StageSecret(stage, variable, text)


def existence(target: Target, ref: SecretRef) -> Existence | None:
    """What the service says of it; None if there is no such secret. The value is not asked for.

    Raises:
        ClientError: the caller may not ask.
    """
    if ref.service == "ssm":
        return _of_parameter(target, ref)
    try:
        said: Any = target.client("secretsmanager").describe_secret(SecretId=ref.arn)
    except ClientError as error:
        if code_of(error) != _NOT_THERE:
            raise
        return None
    return Existence(
        said.get("LastChangedDate"), said.get("DeletedDate") is not None, _own(said.get("KmsKeyId"))
    )


def _of_parameter(target: Target, ref: SecretRef) -> Existence | None:
    name = parameter_name(ref)
    # By its path, or as a name that has none.
    filters = [{"Key": "Name", "Option": "Equals", "Values": [name, name.removeprefix("/")]}]
    ssm = target.client("ssm")
    # AWS may answer with a page that has none, and a token for the next.
    for page in ssm.get_paginator("describe_parameters").paginate(ParameterFilters=filters):
        for found in page["Parameters"]:
            return Existence(
                found.get("LastModifiedDate"), is_being_deleted=False, key=_own(found.get("KeyId"))
            )
    return None


def parameter_name(ref: SecretRef) -> str:
    """The name of a parameter, as a path."""
    return "/" + ref.arn.partition(":parameter/")[2]


def _own(key: str | None) -> str | None:
    return None if key in _KEYS_OF_AWS else key


def with_key(before: str | None, key: str, value: str) -> str:
    """The JSON of a secret, with another value of one key.

    Raises:
        ValueError: what is there is no JSON object.
    """
    document = json.loads(before) if before else {}
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004 - of a value, and for people
    return json.dumps({**document, key: value})
