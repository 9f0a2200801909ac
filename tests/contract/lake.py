"""Small outputs for tables, without Spark: files as Spark would write them, by pyarrow."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import ClientError
from pyiceberg.table import Table

from longhaul.core.lease import AttemptId
from longhaul.core.places import TablePath
from longhaul.core.results import Results
from longhaul.core.settings import Mode
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.lineage import Origin
from longhaul.outputs.partitions import PartitionBy
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.table_destination import TableDestination
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset, TableLayout
from longhaul.runner.stopping import Stop
from tests.builders import there

BUCKET, DATABASE = "data", "lake"
PATH = TablePath(DATABASE, "flights")
_SPARK = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
}
COLUMNS = {"n": "long", "p": "string"}

Rows = Sequence[tuple[Any, ...]]
RUN = 1_767_323_045_000
"""The first run of a job that runs again."""


@dataclass
class Lake:
    """A bucket and a Glue database."""

    folder: Path
    client: Callable[..., Any]
    origin: Origin | None = None  # what the outputs say of where they come from

    def __post_init__(self) -> None:
        self.s3, self.glue = self.client("s3"), self.client("glue")
        self.s3.create_bucket(Bucket=BUCKET)
        self.glue.create_database(DatabaseInput={"Name": DATABASE})
        self.tables = Tables(lambda: self.glue, self.s3, BUCKET)

    def upload(  # noqa: PLR0913 - what may differ
        self,
        job: str,
        rows: Rows,
        mode: Mode = "append",
        *,
        attempt: int = 1,
        by: Sequence[str] = (),
        columns: dict[str, str] | None = None,
        datasets: Sequence[str] = (".",),
        path: TablePath = PATH,
        run: int = 1,
    ) -> AttemptId:
        """An output whose upload has ended, as an attempt would commit it to its lease."""
        attempt_id = AttemptId(f"main#{job}", run, attempt)
        destination = TableDestination(
            self.tables, path, mode, attempt_id, lambda _: None, again=run > RUN
        )
        written = [
            self.written(destination, attempt_id, name, rows, by, columns or COLUMNS)
            for name in datasets
        ]
        uploader = Uploader(self.s3, BUCKET, Moving(Stop()))
        uploader.send(
            destination.plan(written, InputListing(self.s3, BUCKET)),
            results=Results(value={"days": 7}),
            origin=self.origin,
        )
        return attempt_id

    def publish(self, output: AttemptId, glue: Any = None) -> None:
        self.publisher(glue).publish(output)

    def publisher(self, glue: Any = None) -> S3Publisher:
        tables = Tables(lambda: glue or self.glue, self.s3, BUCKET)
        return S3Publisher(self.s3, BUCKET, tables=lambda: tables)

    def add(self, job: str, rows: Rows, mode: Mode = "append", **named: Any) -> AttemptId:
        output = self.upload(job, rows, mode, **named)
        self.publish(output)
        return output

    def table(self, path: TablePath = PATH) -> Table:
        return there(self.tables.load(path))

    def replace_metadata(self, body: bytes) -> None:
        """Write something else where the table's metadata is, as a job's code can."""
        key = self.table().metadata_location.removeprefix(f"s3://{BUCKET}/")
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def rows(self, path: TablePath = PATH) -> list[tuple[Any, ...]]:
        table = self.tables.load(path)
        found = table.scan().to_arrow().to_pylist() if table else []
        return sorted(tuple(row.values()) for row in found)

    def tokens(self) -> list[str]:
        return self.marks("longhaul.token")

    def marks(self, name: str) -> list[str]:
        """What the snapshots say under that name."""
        return [
            snapshot.summary.additional_properties[name]
            for snapshot in self.table().metadata.snapshots
            if snapshot.summary
        ]

    def written(
        self,
        destination: TableDestination,
        attempt: AttemptId,
        name: str,
        rows: Rows,
        by: Sequence[str],
        columns: dict[str, str],
    ) -> Dataset:
        described = {
            "type": "struct",
            "fields": [{"name": each, "type": kind} for each, kind in columns.items()],
        }
        layout: TableLayout = destination.layout(name, described, by)
        folder = self.folder / attempt.token / name.replace(".", "main")
        schema = pa.schema([(each, _SPARK[kind]) for each, kind in columns.items()])
        for n, part in enumerate(_parts(rows, list(columns), layout.partition_by)):
            arrays = [
                pa.array(column, type_)
                for column, type_ in zip(zip(*part, strict=True), schema.types, strict=True)
            ]
            (folder / f"{n}").mkdir(parents=True)
            pq.write_table(pa.table(arrays, schema=schema), folder / f"{n}" / "part-0.parquet")
        return Dataset(
            name, folder, len(rows), TableLayout(json.dumps(described), layout.partition_by)
        )


def _parts(rows: Rows, names: list[str], by: Sequence[PartitionBy]) -> list[Rows]:
    """The rows of each partition; of one by days and the like the test writes one partition."""
    places = [names.index(each.column) for each in by]
    keys = sorted({tuple(row[place] for place in places) for row in rows}, key=str)
    return [[row for row in rows if tuple(row[at] for at in places) == key] for key in keys]


class Glue:
    """A client whose answer to UpdateTable or CreateTable is lost, as often as asked."""

    def __init__(
        self, client: Any, lost: int, code: str, before: Callable[[], object] = lambda: None
    ) -> None:
        self._client, self._lost, self._code, self._before = client, lost, code, before

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._client, name)
        if name not in ("update_table", "create_table"):
            return inner

        def call(**arguments: Any) -> Any:
            before, self._before = self._before, lambda: None
            before()
            answer = inner(**arguments)
            if self._lost:
                self._lost -= 1
                error: Any = {"Error": {"Code": self._code, "Message": "lost"}}
                raise getattr(self._client.exceptions, self._code, ClientError)(error, name)
            return answer

        return call


def at_once(calls: Sequence[Callable[[], Any]]) -> list[BaseException]:
    """Call all in threads that start together; returns what they raised."""
    gate, raised = threading.Barrier(len(calls)), []

    def run(call: Callable[[], Any]) -> None:
        gate.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised
