"""Log events that tasks wrote."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import json
import time
from typing import Any

from moto.logs.models import LogsBackend, logs_backends

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store


def apply(patches: Patches, store: Store) -> None:
    stock: Any = LogsBackend.put_log_events

    def put_log_events(
        backend: Any,
        log_group_name: str,
        log_stream_name: str,
        log_events: list[dict[str, Any]],
    ) -> Any:
        result = stock(backend, log_group_name, log_stream_name, log_events)
        if store.recording:
            with store.writing() as database:
                row = (log_group_name, log_stream_name, time.time(), json.dumps(log_events))
                database.execute("INSERT INTO log VALUES (?, ?, ?, ?)", row)
        return result

    patches.replace(LogsBackend, "put_log_events", put_log_events)


def restore(store: Store, account: str, region: str) -> None:
    backend = logs_backends[account][region]
    for group, stream, events in store.rows(
        'SELECT "group", stream, events FROM log ORDER BY rowid'
    ):
        backend.ensure_log_group(group)
        backend.ensure_log_stream(group, stream)
        backend.put_log_events(group, stream, json.loads(events))
