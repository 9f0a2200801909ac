"""Data frames of Spark, as a job writes them and has them back.

Of files for a table each has rows of one partition, and every column. Spark's own `partitionBy`
takes its columns out, and puts the empty text and null into one folder: so it gets columns that are
made for it.
"""

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses
from pyspark.sql.types import StructType, TimestampType

from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.frame import WriteOptions, partition_of_nulls, require_columns, writing
from longhaul.runner.io.written import Folder, TableLayout


class SparkFrame:
    """`longhaul.runner.io.frame.Frame`. Rows are counted while they are written, in one pass."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self.columns = df.schema.json()

    def write(self, folder: Folder, how: WriteOptions) -> int:
        df, partition_by = self._df, how.partition_by
        counted = Observation()
        observed = df.observe(counted, F.count(F.lit(1)).alias("rows"))
        require_columns(partition_by, df.columns)
        in_folders = {column.lower() for column in partition_by}
        in_files = [column for column in df.columns if column.lower() not in in_folders]
        writer = observed.write.format(how.format).partitionBy(*partition_by)
        writer = writer.options(**writing(how.format, in_files)).options(**how.options)
        # A job may catch an error and write again: what the first try left is replaced.
        writer.mode("overwrite").save(folder.as_uri())
        rows = int(counted.get["rows"])
        if not rows and partition_by:
            # Spark writes no file, and readers would have no columns.
            empty = df.drop(*partition_by).limit(0).coalesce(1).write.format(how.format)
            empty = empty.options(**writing(how.format, in_files)).options(**how.options)
            empty.save(f"{folder.as_uri().rstrip('/')}/{partition_of_nulls(partition_by)}")
        return rows

    def write_for_table(
        self, folder: Folder, layout: TableLayout, options: Mapping[str, str]
    ) -> tuple[int, frozenset[str]]:
        df, counted = self._df, Observation()
        required = [column for column in layout.required if column in df.columns]
        nulls = (
            F.count_if(F.col(quoted(column)).isNull()).alias(f"nulls{n}")
            for n, column in enumerate(required)
        )
        observed = df.observe(counted, F.count(F.lit(1)).alias("rows"), *nulls)
        split(observed, layout.partition_by).options(**options).save(folder.as_uri())
        found = counted.get
        without_null = (column for n, column in enumerate(required) if found[f"nulls{n}"] == 0)
        return int(found["rows"]), frozenset(without_null)

    def stored(self, folder: Folder, columns: str) -> DataFrame:
        schema = StructType.fromJson(json.loads(columns))
        return self._df.sparkSession.read.schema(schema).parquet(folder.as_uri())


def split(df: DataFrame, partition_by: Iterable[PartitionBy]) -> DataFrameWriter:
    """A writer of Parquet files, each of one partition."""
    prefix = "longhaul_by_"
    while any(name.lower().startswith(prefix) for name in df.columns):
        prefix += "_"
    made = {f"{prefix}{n}": _partition_column(by, df) for n, by in enumerate(partition_by)}
    writer = df.withColumns(made).write.format("parquet").partitionBy(*made)
    return writer.mode("overwrite")  # see SparkFrame.write


def quoted(column: str) -> str:
    """The name as Spark takes it for a column, whatever is in it."""
    return f"`{column.replace('`', '``')}`"


def _partition_column(by: PartitionBy, df: DataFrame) -> Column:
    column = F.col(quoted(by.column))
    if isinstance(df.schema[by.column].dataType, TimestampType):
        column = _in_utc(column)
    match by.transform:
        case "identity":
            # A value may be longer than a folder's name can be. Null stays null.
            return F.sha2(column.cast("string"), 256)
        case "day":
            return F.to_date(column)
        case "hour":
            # Not date_trunc, which takes a local time for one in the session's zone.
            return F.concat(F.to_date(column), F.lit(" "), F.hour(column))
        case _:
            return F.trunc(F.to_date(column), by.transform)


def _in_utc(instant: Column) -> Column:
    """The local time in UTC, whose days and hours are Iceberg's: a job may set another zone."""
    epoch = F.lit("1970-01-01").cast("timestamp_ntz")
    return F.timestamp_add("MICROSECOND", F.unix_micros(instant), epoch)
