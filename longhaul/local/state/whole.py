"""What is small, and so written as a whole: the catalog of Glue, secrets, parameters."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from moto.glue.models import glue_backends
from moto.glue.responses import GlueResponse
from moto.secretsmanager.models import secretsmanager_backends
from moto.secretsmanager.responses import SecretsManagerResponse
from moto.ssm.models import ssm_backends
from moto.ssm.responses import SimpleSystemManagerResponse

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store, keep_after

_KIND: Final = "whole"


_WHOLE: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "databases": lambda account, region: dict(glue_backends[account][region].databases),
    # This dictionary's own look-ups take parts of an ARN.
    "secrets": lambda account, region: dict(
        dict.items(secretsmanager_backends[account][region].secrets)
    ),
    "parameters": lambda account, region: dict(ssm_backends[account][region]._parameters),
}
# Of a request that only reads nothing has changed, and nothing is written.
_AFTER: Final = (
    (GlueResponse, "databases"),
    (SecretsManagerResponse, "secrets"),
    (SimpleSystemManagerResponse, "parameters"),
)


def apply(patches: Patches, store: Store, account: str, region: str) -> None:
    """Apply after the repairs."""

    def keep(name: str, _response: Any) -> None:
        store.put(_KIND, {name: _WHOLE[name](account, region)})

    for owner, name in _AFTER:
        keep_after(patches, store, owner, "call_action", partial(keep, name))


def restore(store: Store, account: str, region: str) -> None:
    kept = dict(store.things(_KIND))
    databases = glue_backends[account][region].databases
    for name, database in kept.get("databases", {}).items():
        databases.setdefault(name, database).tables = database.tables
    for name, secret in kept.get("secrets", {}).items():
        secretsmanager_backends[account][region].secrets[name] = secret
    for name, versions in kept.get("parameters", {}).items():
        ssm_backends[account][region]._parameters.setdefault(name, versions)
