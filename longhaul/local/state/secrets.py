"""Secrets of Secrets Manager, and parameters of SSM, apart from those that a start itself makes."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import pickle
from typing import Any

from moto.secretsmanager.models import FakeSecret, secretsmanager_backends
from moto.secretsmanager.responses import SecretsManagerResponse
from moto.ssm.models import ssm_backends
from moto.ssm.responses import SimpleSystemManagerResponse

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store

_READS = ("Get", "List", "Describe", "BatchGet")


def apply(patches: Patches, store: Store) -> None:
    for response_class, keep in (
        (SecretsManagerResponse, _keep_secrets),
        (SimpleSystemManagerResponse, _keep_parameters),
    ):
        _apply(patches, store, response_class, keep)


def restore(store: Store, account: str, region: str) -> None:
    secrets = secretsmanager_backends[account][region].secrets
    parameters: Any = ssm_backends[account][region]._parameters  # noqa: SLF001 - there is no other way
    for service, name, data in store.rows("SELECT service, name, data FROM secret"):
        found = pickle.loads(data)  # noqa: S301 - of a folder of the user's own
        if service == "ssm":
            if name not in parameters:
                parameters[name] = found
            continue
        secret: Any = FakeSecret.__new__(FakeSecret)
        secret.__dict__.update(found)
        secrets[name] = secret


def _apply(patches: Patches, store: Store, response_class: Any, keep: Any) -> None:
    stock: Any = response_class.call_action

    def call_action(response: Any) -> Any:
        try:
            return stock(response)
        finally:
            action = response.headers.get("X-Amz-Target", "").rpartition(".")[2]
            if store.recording and not action.startswith(_READS):
                keep(store, response)

    patches.replace(response_class, "call_action", call_action)


def _keep_secrets(store: Store, response: Any) -> None:
    secrets = dict.items(response.backend.secrets)
    _write(store, "secretsmanager", {name: dict(each.__dict__) for name, each in secrets})


def _keep_parameters(store: Store, response: Any) -> None:
    _write(store, "ssm", dict(response.ssm_backend._parameters))  # noqa: SLF001 - as above


def _write(store: Store, service: str, found: dict[str, Any]) -> None:
    """All of them: there are few."""
    with store.writing() as database:
        database.execute("DELETE FROM secret WHERE service = ?", (service,))
        database.executemany(
            "INSERT INTO secret VALUES (?, ?, ?)",
            [(service, name, pickle.dumps(each)) for name, each in found.items()],
        )
