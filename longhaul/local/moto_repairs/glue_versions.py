"""A table of the Glue catalog changes only if it still is what the writer read.

AWS: UpdateTable with a `VersionId` that is not the table's current one fails with
ConcurrentModificationException and changes nothing. With `SkipArchive` the version before is not
kept. Of two CreateTable at once, one fails.

Stock moto: ignores both, and two requests at once can both find that a table is not there. Of
concurrent commits to an Iceberg table, all but the last are lost.
"""

from threading import RLock
from typing import TYPE_CHECKING, Any

from moto.core.exceptions import JsonRESTError
from moto.core.responses import EmptyResult
from moto.glue.models import GlueBackend
from moto.glue.responses import GlueResponse

from longhaul.local.moto_repairs.patching import Patches

if TYPE_CHECKING:
    from moto.core.responses import ActionResult


def apply(patches: Patches) -> None:
    lock = RLock()
    stock_create_table = GlueBackend.create_table

    def create_table(backend: GlueBackend, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as moto's
        with lock:
            return stock_create_table(backend, *args, **named)

    def update_table(response: GlueResponse) -> "ActionResult":
        asked: dict[str, Any] = response.parameters
        with lock:
            table = response.glue_backend.get_table(
                asked["DatabaseName"], asked["TableInput"]["Name"]
            )
            current = str(table._current_version)  # noqa: SLF001 - moto has no other name for it
            if asked.get("VersionId") not in (None, current):
                raise JsonRESTError(
                    "ConcurrentModificationException",
                    "Update table failed due to concurrent modifications.",
                )
            table.update(asked["TableInput"])
            if asked.get("SkipArchive"):
                table.versions.pop(current, None)
        return EmptyResult()

    patches.replace(GlueBackend, "create_table", create_table)
    patches.replace(GlueResponse, "update_table", update_table)
