"""Items of DynamoDB."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.responses import DynamoHandler

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store, keep_after

_WRITES: Final = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


def apply(patches: Patches, store: Store) -> None:
    """Apply before `dynamodb.atomic`: a change is then kept under its lock."""

    def keep(response: Any) -> None:
        if response.headers.get("X-Amz-Target", "").endswith(_WRITES):
            store.put("item", dict(_items(response.dynamodb_backend, response.body)))

    keep_after(patches, store, DynamoHandler, "call_action", keep)


def restore(store: Store, account: str, region: str) -> None:
    backend = dynamodb_backends[account][region]
    for _, (name, attributes) in store.things("item"):
        if (table := backend.tables.get(name)) is not None:
            table.put_item(attributes)


def _items(backend: Any, asked: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a request wrote, as it is now; None if it is gone."""
    for name, attributes in _written(asked):
        table = backend.tables.get(name.rpartition("/")[2])
        names = (
            [each for each in (table.hash_key_attr, table.range_key_attr) if each] if table else []
        )
        key = {each: attributes[each] for each in names if each in attributes}
        if not key or len(key) < len(names):
            continue
        item = table.get_item(*backend.get_keys_value(table, key))
        kept = (table.name, item.to_json()["Attributes"]) if item is not None else None
        yield f"{table.name} {sorted(key.items())}", kept


def _written(asked: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables and items, or keys of them, that a request names."""
    changes = [asked]
    changes += [each for request in asked.get("TransactItems", []) for each in request.values()]
    changes += [
        {"TableName": table, **each}
        for table, requests in asked.get("RequestItems", {}).items()
        for request in requests
        for each in request.values()
    ]
    for each in changes:
        if attributes := each.get("Item") or each.get("Key"):
            yield each.get("TableName", ""), attributes
