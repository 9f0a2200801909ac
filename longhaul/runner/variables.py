"""A stage's variables: read, given to its job's process, and their secrets kept from its log."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of, is_denied, message_of
from longhaul.core.errors import SecretUnreadableError
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import JobVariables
from longhaul.runner import masked_output
from longhaul.runner.masking import NO_MASK, Mask


class SecretValues(Protocol):
    """Secrets of Secrets Manager, and parameters of SSM."""

    def read_secret(self, ref: SecretRef) -> str:
        """What a setting of a stage names, as it is now.

        Raises:
            SecretUnreadableError: it is denied or not there, until people mend that. The text
                says which; it has nothing of the value.
        """


def read_variables(own: JobVariables, values: SecretValues) -> tuple[dict[str, str], Mask]:
    """What a stage has for the environment of its jobs, and what keeps its secrets out of logs.

    Raises:
        SecretUnreadableError: a secret is denied, or not there, or no variable can hold it.
    """
    secrets: dict[str, str] = {}
    for name, text in own.secrets.items():
        try:
            secrets[name] = values.read_secret(SecretRef.parse(text))
        except SecretUnreadableError as error:
            raise SecretUnreadableError(f"{name}: {error}") from error
        if "\0" in secrets[name]:
            raise SecretUnreadableError(f"{name}: its value has a NUL: no variable can hold it")
    return {**own.environment, **secrets}, Mask(secrets) if secrets else NO_MASK


def give_to_process(variables: Mapping[str, str], mask: Mask) -> None:
    """Set the variables, and cut secrets out of what this process and its children print."""
    os.environ.update(variables)
    if mask is not NO_MASK:
        masked_output.begin(mask)


# What says that there is no such secret, version or key, or that it cannot be decrypted, and goes
# on saying so until people mend it. Sources: the errors of GetSecretValue (Secrets Manager API
# Reference) and of GetParameter (Systems Manager API Reference).
_UNTIL_MENDED = {
    "ResourceNotFoundException",
    "InvalidRequestException",  # it is being deleted, or has no value
    "InvalidParameterException",
    "DecryptionFailure",
    "ParameterNotFound",
    "ParameterVersionNotFound",
    "InvalidKeyId",
    "ValidationException",
    "KMSInvalidStateException",
}


class AwsSecretValues:
    """`SecretValues`. Reads each secret once."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        """`client` makes boto3's client of a service: most stages have no secrets."""
        self._client = cache(client)
        self._value = cache(self._look_up)

    def read_secret(self, ref: SecretRef) -> str:
        try:
            value = self._value(replace(ref, key=""))
        except ClientError as error:
            code = code_of(error)
            if not is_denied(error) and code not in _UNTIL_MENDED:
                raise
            raise SecretUnreadableError(
                f"the role of the stage cannot read {ref.arn}: {code}: {message_of(error)}"
            ) from error
        return _of_key(value, ref) if ref.key else value

    def _look_up(self, ref: SecretRef) -> str:
        client = self._client(ref.service)
        if ref.service == "ssm":
            found = client.get_parameter(Name=ref.arn, WithDecryption=True)["Parameter"]
            return str(found["Value"])
        request = {"SecretId": ref.arn}
        if ref.version_stage:
            request["VersionStage"] = ref.version_stage
        if ref.version_id:
            request["VersionId"] = ref.version_id
        answer = client.get_secret_value(**request)
        if "SecretString" not in answer:
            raise SecretUnreadableError(f"{ref.arn} holds bytes: only a text can be in a variable")
        return str(answer["SecretString"])


def _of_key(value: str, ref: SecretRef) -> str:
    """The value of a key of a secret's JSON: a text as it is, all else as JSON writes it."""
    try:
        document = json.loads(value)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        # Not `from`: the error of the parser has the whole text.
        raise SecretUnreadableError(f"{ref.arn} has no key {ref.key!r}: it holds no JSON object")
    if ref.key not in document:
        raise SecretUnreadableError(f"{ref.arn} has no key {ref.key!r}")
    found = document[ref.key]
    return found if isinstance(found, str) else json.dumps(found)
