"""Items of DynamoDB."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.responses import DynamoHandler

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store


def apply(patches: Patches, store: Store) -> None:
    """Apply before `dynamodb_atomic`: a change is then kept under its lock."""
    stock = DynamoHandler.call_action

    def call_action(response: Any) -> Any:
        try:
            return stock(response)
        finally:  # also after an error: a batch may be written in part
            if store.recording:
                action = response.headers.get("X-Amz-Target", "").rpartition(".")[2]
                _keep(store, response.dynamodb_backend, list(_written(action, response.body)))

    patches.replace(DynamoHandler, "call_action", call_action)


def restore(store: Store, account: str, region: str) -> None:
    backend = dynamodb_backends[account][region]
    for name, attributes in store.rows('SELECT "table", attributes FROM item'):
        if (table := backend.tables.get(name)) is not None:
            table.put_item(pickle.loads(attributes))  # noqa: S301 - of a folder of the user's own


def _written(action: str, asked: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables and items, or keys of them, that a request names to write."""
    match action:
        case "PutItem" | "UpdateItem" | "DeleteItem":
            yield asked.get("TableName", ""), asked.get("Item") or asked.get("Key") or {}
        case "BatchWriteItem":
            for table, requests in asked.get("RequestItems", {}).items():
                for each in requests:
                    for request in each.values():
                        yield table, request.get("Item") or request.get("Key") or {}
        case "TransactWriteItems":
            for each in asked.get("TransactItems", []):
                for request in each.values():
                    yield request["TableName"], request.get("Item") or request.get("Key") or {}


def _keep(store: Store, backend: DynamoDBBackend, names: list[tuple[str, dict[str, Any]]]) -> None:
    if not names:
        return
    with store.writing() as database:
        for name, attributes in names:
            table = backend.tables.get(name.rpartition("/")[2])
            key = {each: attributes[each] for each in _key_of(table) if each in attributes}
            if table is None or len(key) < len(_key_of(table)):
                continue
            text = repr(sorted(key.items()))
            item = table.get_item(*backend.get_keys_value(table, key))
            if item is None:
                database.execute(
                    'DELETE FROM item WHERE "table" = ? AND key = ?', (table.name, text)
                )
            else:
                stored = pickle.dumps(item.to_json()["Attributes"])  # bytes too
                database.execute(
                    "INSERT OR REPLACE INTO item VALUES (?, ?, ?)", (table.name, text, stored)
                )


def _key_of(table: Any) -> list[str]:
    if table is None:
        return []
    return [each for each in (table.hash_key_attr, table.range_key_attr) if each]
