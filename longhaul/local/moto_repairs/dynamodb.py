"""Repairs of DynamoDB."""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from threading import RLock
from types import SimpleNamespace
from typing import Any

from moto.dynamodb import models
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from longhaul.local.moto_repairs.patching import Patches


def atomic(patches: Patches) -> None:
    """A conditional write is atomic, and so is a transaction.

    AWS: checks the condition and applies the write as one step. A transaction applies whole or not
    at all, and no reader sees half of it. Its cost does not depend on the size of the table.

    Stock moto: handles requests in threads, so two writes can both pass their condition on the same
    old item. A transaction copies the whole table first, which takes longer with each item. A
    failed one restores that copy, which undoes concurrent writes.

    One lock is held around each request, up to its response, which is written from the live item.
    It costs little: a request takes a few milliseconds of CPU. A transaction copies only the items
    that it names, and restores them when it fails.
    """
    lock = RLock()
    stock_call_action = DynamoHandler.call_action
    stock_transact = DynamoDBBackend.transact_write_items

    @patches.replacing(DynamoHandler, "call_action")
    def call_action(response: Any) -> Any:
        with lock:
            return stock_call_action(response)

    @patches.replacing(DynamoDBBackend, "transact_write_items")
    def transact_write_items(backend: Any, transact_items: list[dict[str, Any]]) -> None:
        restores = []
        for item in transact_items:
            with suppress(Exception):  # stock moto refuses what is malformed, and writes none of it
                restores += [_restore_of(backend, operation) for operation in item.values()]
        try:
            stock_transact(backend, transact_items)
        except Exception:
            for restore in restores:
                restore()
            raise

    # What stock moto copies before a transaction, and puts back after a failed one, is the table
    # itself now.
    patches.replace(models, "copy", SimpleNamespace(deepcopy=_copied))


def _copied(value: Any) -> Any:
    """A deep copy. A table is returned as it is, unless it has a stream, which moto rolls back."""
    return value if isinstance(value, Table) and value.stream_shard is None else deepcopy(value)


def _restore_of(backend: Any, operation: Mapping[str, Any]) -> Callable[[], None]:
    """Puts the item that the operation names back as it is now."""
    table = backend.tables[operation["TableName"]]
    hash_key, range_key = backend.get_keys_value(table, operation.get("Key", operation.get("Item")))
    before = deepcopy(table.get_item(hash_key, range_key))

    def restore() -> None:
        items, key = (
            (table.items, hash_key)
            if range_key is None
            else (
                table.items[hash_key],
                range_key,
            )
        )
        if before is None:
            items.pop(key, None)
        else:
            items[key] = before

    return restore
