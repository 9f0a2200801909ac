"""A stage's variables: read, given to its job's process, and their secrets kept from its log."""

import os
from collections.abc import Mapping

from longhaul.core.errors import SecretUnreadableError
from longhaul.core.ports import SecretValues
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import JobVariables
from longhaul.runner import masked_output
from longhaul.runner.masking import NO_MASK, Mask


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
