"""Databases and tables of Glue."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import pickle
from typing import Any

from moto.glue.models import FakeTable, glue_backends
from moto.glue.responses import GlueResponse

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store


def apply(patches: Patches, store: Store) -> None:
    """Apply after the repairs."""
    stock: Any = GlueResponse.call_action

    def call_action(response: Any) -> Any:
        try:
            return stock(response)
        finally:
            action = response.headers.get("X-Amz-Target", "").rpartition(".")[2]
            if store.recording and not action.startswith(("Get", "BatchGet", "List", "Search")):
                _keep(store, response.glue_backend, response.parameters)

    patches.replace(GlueResponse, "call_action", call_action)


def restore(store: Store, account: str, region: str) -> None:
    backend = glue_backends[account][region]
    for name, data in store.rows("SELECT name, data FROM database"):
        if name not in backend.databases:  # the others are the template's
            backend.create_database(name, pickle.loads(data))  # noqa: S301 - of the user's own
    for database, name, data in store.rows("SELECT database, name, data FROM catalog"):
        if database in backend.databases:
            table: Any = FakeTable.__new__(FakeTable)
            table.__dict__.update(pickle.loads(data))  # noqa: S301 - of a folder of the user's own
            backend.databases[database].tables[name] = table


def _keep(store: Store, backend: Any, asked: dict[str, Any]) -> None:
    """Write down the database and the tables that a request names, as they are after it."""
    name = asked.get("DatabaseName") or asked.get("DatabaseInput", {}).get("Name")
    name = name or asked.get("Name")
    if not isinstance(name, str):
        return
    tables = [asked.get("TableInput", {}).get("Name"), asked.get("TableName"), asked.get("Name")]
    tables += asked.get("TablesToDelete", [])
    with store.writing() as writer:
        database = backend.databases.get(name)
        if database is None:
            writer.execute("DELETE FROM database WHERE name = ?", (name,))
            writer.execute("DELETE FROM catalog WHERE database = ?", (name,))
            return
        data = pickle.dumps(database.input)
        writer.execute("INSERT OR REPLACE INTO database VALUES (?, ?)", (name, data))
        for each in {table for table in tables if isinstance(table, str)}:
            if each in database.tables:
                data = pickle.dumps(dict(database.tables[each].__dict__))
                writer.execute(
                    "INSERT OR REPLACE INTO catalog VALUES (?, ?, ?)", (name, each, data)
                )
            else:
                writer.execute("DELETE FROM catalog WHERE database = ? AND name = ?", (name, each))
