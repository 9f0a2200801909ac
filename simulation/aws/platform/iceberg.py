"""What pyiceberg, and the entries of files for tables, are in a world.

pyiceberg's threads become calls, since threads are processes of the timeline here; its random names
come from the plan's seed; and no host profits from what another one has read.
"""

import random
import uuid
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from pyiceberg import manifest
from pyiceberg.schema import Schema
from pyiceberg.utils.concurrent import ExecutorFactory

from longhaul.outputs.manifest import TableFile
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io import table_destination

ROWS = 3  # in each file


class _AtOnce(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        return future


def replacements(rng: random.Random) -> tuple[tuple[Any, str, Any], ...]:
    """As in `harness`: what is replaced, where, and by what."""
    return (
        (ExecutorFactory, "get_or_create", _AtOnce),
        (uuid, "uuid4", lambda: uuid.UUID(int=rng.getrandbits(128), version=4)),
        (manifest._manifest_cache, "_cache", None),  # noqa: SLF001 - one for all of a process
        # Spark's files have no footers here.
        (table_destination, "describe", _described),
    )


def _described(
    files: Iterable[Path],
    _columns: Schema,
    _by: tuple[PartitionBy, ...],
    folder: str,
    _without_null: Collection[str],
) -> list[tuple[Path, TableFile]]:
    """`longhaul.runner.io.table_files.describe`."""
    return [
        (
            file,
            TableFile(
                path=f"{folder}{n:05d}.parquet", size=file.stat().st_size, rows=ROWS, columns={}
            ),
        )
        for n, file in enumerate(files)
    ]
