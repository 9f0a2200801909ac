"""Spark writes files for a table, of which each has rows of one partition.

Every column stays in the files. Spark's own `partitionBy` takes its columns out, and puts the empty
text and null into one folder: so it gets columns that are made for it.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, DataFrameWriter
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses
from pyspark.sql.types import TimestampType

from longhaul.core.places import PartitionBy


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
