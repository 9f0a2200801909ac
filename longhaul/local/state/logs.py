"""Log events that tasks wrote."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import uuid
from typing import Any

from moto.logs.models import LogsBackend, logs_backends

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store


def apply(patches: Patches, store: Store) -> None:
    stock: Any = LogsBackend.put_log_events

    @patches.replacing(LogsBackend, "put_log_events")
    def put_log_events(
        backend: Any, log_group_name: str, log_stream_name: str, log_events: list[dict[str, Any]]
    ) -> Any:
        result = stock(backend, log_group_name, log_stream_name, log_events)
        store.put("log", {uuid.uuid4().hex: (log_group_name, log_stream_name, log_events)})
        return result


def restore(store: Store, account: str, region: str) -> None:
    backend = logs_backends[account][region]
    for _, (group, stream, events) in store.things("log"):
        backend.ensure_log_group(group)
        backend.ensure_log_stream(group, stream)
        backend.put_log_events(group, stream, events)
