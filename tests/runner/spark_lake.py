"""Tables on a server of moto's that Spark writes as a job does, and three readers of their rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import count
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table
from pyspark.sql import DataFrame

from longhaul.cli.tables.query import query
from longhaul.core.lease import AttemptId
from longhaul.core.places import TableInput, TablePath
from longhaul.core.settings import Mode
from longhaul.local.credentials import aws_client
from longhaul.local.moto_repairs import glue as glue_repairs
from longhaul.operations.tables import TableReader
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.publisher import S3Publisher
from longhaul.runner.io.disk_area import DiskArea
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.table_destination import TableDestination
from longhaul.runner.io.table_inputs import TablePlanner
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.stopping import Stop
from longhaul.testing import MakeJob
from tests.builders import BUCKET
from tests.servers import moto_server, repaired

REGION, DATABASE = "us-east-1", "longhaul"
ALL = AlwaysTrue()


class SparkLake:
    """A stack's tables. Each row of them has a number `n` of its own."""

    def __init__(self, endpoint: str, folder: Path, make_job: MakeJob) -> None:
        self.s3 = aws_client("s3", endpoint=endpoint, region=REGION)
        self.glue = aws_client("glue", endpoint=endpoint, region=REGION)
        self.s3.create_bucket(Bucket=BUCKET)
        self.glue.create_database(DatabaseInput={"Name": DATABASE})
        self.tables = Tables(lambda: self.glue, self.s3, BUCKET)
        self._folder = folder
        self._make_job = make_job
        self._numbers = count(1)

    def table(self, name: str) -> Table:
        found = self.tables.load(TablePath(DATABASE, name))
        assert found is not None
        return found

    def files(self, name: str) -> list[str]:
        return sorted(task.file.file_path for task in self.table(name).scan().plan_files())

    def upload(
        self, name: str, df: DataFrame, partition_by: Sequence[str] = (), mode: Mode = "append"
    ) -> AttemptId:
        """As an attempt does."""
        attempt = AttemptId(f"main#{next(self._numbers)}", 1, 1)
        path = TablePath(DATABASE, name)
        table = TableDestination(self.tables, path, mode, attempt, lambda _: None)
        job = self._make_job({})
        job.table = table
        job.write(df, partition_by=partition_by)
        uploader = Uploader(self.s3, BUCKET, Moving(Stop()))
        uploader.send(table.plan(job.written, InputListing(self.s3, BUCKET)))
        return attempt

    def publish(self, output: AttemptId) -> None:
        publisher = S3Publisher(self.s3, BUCKET, tables=lambda: self.tables)
        publisher.publish(output)

    def write(self, name: str, df: DataFrame, partition_by: Sequence[str] = ()) -> None:
        self.publish(self.upload(name, df, partition_by))

    def file(self, uri: str) -> pa.Table:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return pq.read_table(BytesIO(self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()))

    def ours(self, name: str, where: str = "") -> list[int]:
        """The numbers of the rows that a job gets for an input with this filter."""
        files = self.stage(name, where).iterdir()
        return sorted(
            n for file in files for n in pq.ParquetFile(file).read(["n"])["n"].to_pylist()
        )

    def stage(self, name: str, where: str = "") -> Path:
        """The folder that a job reads."""
        planner = TablePlanner(self.tables, lambda _: None)
        area = DiskArea(self.s3, self._folder / f"area-{next(self._numbers)}", {})
        listing = InputListing(self.s3, BUCKET, lambda: planner)
        wanted = TableInput(TablePath(DATABASE, name), None, where)
        staged = area.stage(listing, {"rows": wanted}, Moving(Stop()))
        return Path(urlparse(staged["rows"].path).path)

    def by_pyiceberg(self, name: str, where: str | BooleanExpression = ALL) -> list[int]:
        found = self.table(name).scan(row_filter=where, selected_fields=("n",)).to_arrow()
        return sorted(found["n"].to_pylist())

    def by_duckdb(self, name: str, where: str = "true") -> list[int]:
        reader = TableReader(self.glue, self.s3, (DATABASE,))
        text = f"SELECT n FROM {name} WHERE {where}"  # noqa: S608 - a test's own
        rows = query(reader, text, limit=1_000_000, as_json=False).rows
        return sorted(int(number) for (number,) in rows if number is not None)


@contextmanager
def served_lake(folder: Path, make_job: MakeJob) -> Iterator[SparkLake]:
    """A lake without tables, on a server of its own."""
    with repaired(glue_repairs.versions), moto_server() as endpoint:
        yield SparkLake(endpoint, folder, make_job)
