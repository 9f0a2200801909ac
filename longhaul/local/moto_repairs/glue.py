"""Repairs of Glue."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from threading import RLock
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult, EmptyResult
from moto.glue.models import GlueBackend, glue_backends
from moto.glue.responses import GlueResponse

from longhaul.local.moto_repairs.patching import Made, Patches


def databases(patches: Patches) -> None:
    """A template can make databases of the Glue catalog.

    AWS: `AWS::Glue::Database` makes a database, and `Ref` gives its name.

    Stock moto: CloudFormation does not know the type.
    """

    def make(name: str, properties: dict[str, Any], account: str, region: str) -> Made:
        asked = properties["DatabaseInput"]
        backend = glue_backends[account][region]
        database = backend.create_database(asked.get("Name", name), asked)
        return Made("AWS::Glue::Database", database.name)

    patches.add_type("AWS::Glue::Database", make)


def versions(patches: Patches) -> None:
    """A table of the Glue catalog changes only if it still is what the writer read.

    AWS: UpdateTable with a `VersionId` that is not the table's current one fails with
    ConcurrentModificationException and changes nothing. With `SkipArchive` the version before is
    not kept. Of two CreateTable at once, one fails.

    Stock moto: ignores both, and two requests at once can both find that a table is not there. Of
    concurrent commits to an Iceberg table, all but the last are lost.
    """
    lock = RLock()
    stock_create_table = GlueBackend.create_table

    @patches.replacing(GlueBackend, "create_table")
    def create_table(backend: GlueBackend, *args: Any, **named: Any) -> Any:
        with lock:
            return stock_create_table(backend, *args, **named)

    @patches.replacing(GlueResponse, "update_table")
    def update_table(response: GlueResponse) -> "ActionResult":
        asked: dict[str, Any] = response.parameters
        with lock:
            table = response.glue_backend.get_table(
                asked["DatabaseName"], asked["TableInput"]["Name"]
            )
            current = str(table._current_version)
            if asked.get("VersionId") not in (None, current):
                raise JsonRESTError(
                    "ConcurrentModificationException",
                    "Update table failed due to concurrent modifications.",
                )
            table.update(asked["TableInput"])
            if asked.get("SkipArchive"):
                table.versions.pop(current, None)
        return EmptyResult()
