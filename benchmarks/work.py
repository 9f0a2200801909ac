"""What both sides of a benchmark do, in plain PySpark. Run by spark-submit it is the plain side: `work.py first <rows.csv> <stamp>`, `work.py clean <rows> <output>`."""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

SCHEMA = "id long, name string, value double, day date, note string"


def first_result(spark: SparkSession, rows: str, stamp: str) -> None:
    """The first rows that a user sees; when, is written to the file `stamp`."""
    spark.read.schema(SCHEMA).csv(rows).groupBy("name").agg(F.sum("value"), F.count("*")).collect()
    Path(stamp).write_text(repr(time.time()))


def clean(spark: SparkSession, rows: str) -> DataFrame:
    """Typed, checked, with a column or two more."""
    read = spark.read.schema(SCHEMA).csv(rows)
    return read.where(F.col("value") >= 0).select("*", F.month("day").alias("month"), F.upper("name").alias("upper"))


def main(what: str, source: str, target: str) -> None:
    spark = SparkSession.Builder().getOrCreate()
    if what == "first":
        first_result(spark, source, target)
    else:
        clean(spark, source).write.option("compression", "zstd").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
