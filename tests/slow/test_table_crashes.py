"""A publisher that is killed at any call of AWS, and the two that come after it.

In between, others compact the table and expire its snapshots, and a stale attempt comes late.

The rows are in the table once, whatever was done before the end. Each process dies by SIGKILL at
one event of its connection: before a request is sent, or after its answer has come.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.tables.query import query
from longhaul.core.errors import UploadsGoneError
from longhaul.core.lease import AttemptId
from longhaul.core.places import TablePath
from longhaul.core.settings import Mode
from longhaul.local.credentials import aws_client
from longhaul.local.moto_repairs import glue as glue_repairs
from longhaul.local.moto_repairs import s3 as s3_repairs
from longhaul.operations.tables import TableReader
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.publisher import S3Publisher
from tests.contract.lake import BUCKET, DATABASE, Lake, at_once
from tests.servers import moto_server, repaired

pytestmark = pytest.mark.slow

REGION = "us-east-1"
NEVER = 1_000_000


def client(service: str, endpoint: str) -> Any:
    return aws_client(service, endpoint=endpoint, region=REGION)


def publish_and_die(endpoint: str, output: AttemptId, at: int, seen: Any) -> None:
    """In a process of its own: publish, and end at that event without any clean-up."""
    s3, glue = client("s3", endpoint), client("glue", endpoint)

    def count(**_: Any) -> None:
        seen.value += 1
        if seen.value == at:
            os.kill(os.getpid(), signal.SIGKILL)

    for each in (s3, glue):
        each.meta.events.register("before-send", count)
        each.meta.events.register("response-received", count)
    tables = Tables(lambda: glue, s3, BUCKET)
    S3Publisher(s3, BUCKET, tables=lambda: tables).publish(output)


@pytest.fixture
def endpoint() -> Iterator[str]:
    with repaired(glue_repairs.versions, s3_repairs.uploads), moto_server() as url:
        yield url


@pytest.fixture
def lake(endpoint: str, tmp_path: Path) -> Lake:
    return Lake(tmp_path, partial(client, endpoint=endpoint))


def killed(endpoint: str, output: AttemptId, at: int) -> tuple[int, int | None]:
    """How many events the publisher saw, and its exit code."""
    # Not a fork of this process, in which the server's threads hold locks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    seen = context.Value("i", 0)
    process = context.Process(target=publish_and_die, args=(endpoint, output, at, seen))
    process.start()
    process.join(120)
    assert process.exitcode is not None, "the publisher hangs"
    return seen.value, process.exitcode


def by_duckdb(endpoint: str, path: TablePath) -> list[tuple[Any, ...]]:
    reader = TableReader(client("glue", endpoint), client("s3", endpoint), (DATABASE,))
    asked = f"SELECT n, p FROM {path.name}"  # noqa: S608 - a name of ours
    rows = query(reader, asked, 100, as_json=False).rows
    return sorted((int(str(n)), p) for n, p in rows)


def compact(lake: Lake, path: TablePath) -> None:
    """Rewrite the table as another tool does, and expire every snapshot but the newest."""
    table = lake.tables.load(path)
    if table is None or table.current_snapshot() is None:
        return
    table.overwrite(table.scan().to_arrow())
    newest = table.current_snapshot()
    assert newest is not None
    older = [each.snapshot_id for each in table.snapshots() if each != newest]
    table.maintenance.expire_snapshots().by_ids(older).commit()


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        # The first output makes the table.
        ("append", [], [(1, "x"), (2, "y")]),
        ("append", [(0, "old")], [(0, "old"), (1, "x"), (2, "y")]),
        ("overwrite", [(0, "old")], [(1, "x"), (2, "y")]),
    ],
    ids=["creation", "append", "overwrite"],
)
def test_rows_are_there_once_wherever_a_publisher_was_killed(
    lake: Lake, endpoint: str, mode: Mode, before: list[Any], after: list[Any]
) -> None:
    def prepared(name: str) -> tuple[TablePath, AttemptId, AttemptId]:
        path = TablePath(DATABASE, name)
        if before:
            lake.add(f"before-{name}", before, path=path)
        stale = lake.upload(name, [(9, "stale")], mode, path=path)
        lake.publisher().discard(AttemptId(f"main#{name}", 1, 1))
        rows = [(1, "x"), (2, "y")]
        return path, stale, lake.upload(name, rows, mode, attempt=2, path=path)

    events, code = killed(endpoint, prepared("whole")[2], at=NEVER)
    assert code == 0
    assert events > 20, "the events of a publication are not counted"

    for at in range(1, events + 1):
        path, stale, output = prepared(f"killed_{at}")
        assert killed(endpoint, output, at) == (at, -signal.SIGKILL)
        if mode == "append":  # what was rewritten meanwhile makes an overwrite void
            compact(lake, path)
        with suppress(UploadsGoneError):
            lake.publish(stale)

        # The sweeper and the next settle, at the same moment, and once more after both.
        assert at_once([lambda: lake.publish(output)] * 2) == []  # noqa: B023 - called at once
        lake.publish(output)

        assert lake.rows(path) == after, f"killed at event {at} of {events}"
        assert by_duckdb(endpoint, path) == after, f"killed at event {at} of {events}"
