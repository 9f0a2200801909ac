"""The work of both sides of a benchmark, in plain PySpark.

spark-submit runs it as `work.py first <rows.csv> <stamp>` or `work.py clean <rows> <output>`.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

SCHEMA = "id long, name string, value double, day date, note string"


def first_result(spark: SparkSession, rows: str, stamp: str) -> None:
    """Compute the first rows that a user sees, and write the time to the file `stamp`."""
    spark.read.schema(SCHEMA).csv(rows).groupBy("name").agg(F.sum("value"), F.count("*")).collect()
    Path(stamp).write_text(repr(time.time()))


def clean(spark: SparkSession, rows: str) -> DataFrame:
    """The rows typed and filtered, with two more columns."""
    read = spark.read.schema(SCHEMA).csv(rows)
    return read.where(F.col("value") >= 0).select(
        "*", F.month("day").alias("month"), F.upper("name").alias("upper")
    )


def main(what: str, source: str, target: str) -> None:
    spark = SparkSession.Builder().getOrCreate()
    if what == "first":
        first_result(spark, source, target)
    else:
        clean(spark, source).write.option("compression", "zstd").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
