"""What a publisher of tables needs: a process without the rest."""

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import DEADLINE_S

REPOSITORY = Path(__file__).parents[2]


def test_a_publisher_needs_no_pyarrow() -> None:
    """The functions' layer has none."""
    publishing = """
import sys
sys.modules["pyarrow"] = None  # an import of it raises
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.iceberg.commits import TablePublisher
from longhaul.core.lease import AttemptId
from longhaul.core.places import ColumnStatistics, PartitionBy, PendingTable, TableFile
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from simulation.aws.cloud import FakeAws
fake = FakeAws()
fake.s3.create_bucket(Bucket="data")
fake.glue.create_database(DatabaseInput={"Name": "lake"})
file = TableFile(
    path="data/t/0.parquet",
    size=1,
    rows=1,
    partition=(bytes(8),),
    columns={1: ColumnStatistics(size=1, values=1, nulls=0, lower=bytes(8), upper=bytes(8))},
)
columns = Schema(NestedField(1, "n", LongType(), required=False)).model_dump_json()
pending = PendingTable(
    database="lake",
    name="t",
    location="s3://data/tables/lake/t",
    mode="overwrite_partitions",
    columns=columns,
    partition_by=(PartitionBy(column="n"),),
    files=(file,),
)
publisher = TablePublisher(Tables(lambda: fake.glue, fake.s3, "data"), fake.clock)
first, second = (AttemptId(f"main#{job}", 1, 1) for job in "ab")
for attempt in (first, second, second):
    publisher.publish(attempt, [pending], None, {})
print(*(publisher.switch(each.token, [pending]).name for each in (first, second)))
"""
    done = subprocess.run(
        [sys.executable, "-c", publishing],
        capture_output=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.stdout == "DONE REPLACED\n", done.stderr
