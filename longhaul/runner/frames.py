"""From what a job hands to `write` or `checkpoint` to a `Frame`, by what made it."""

import sys

from longhaul.runner.io.frame import Frame


def frame_of(data: object) -> Frame:
    """The frame for the rows of `data`.

    Raises:
        TypeError: nothing is known that could read them.
    """
    spark = sys.modules.get("pyspark.sql")  # who has a frame of it has imported it
    if spark is not None and isinstance(data, spark.DataFrame):
        from longhaul.runner.spark.frames import SparkFrame  # noqa: PLC0415 - imports PySpark

        return SparkFrame(data)
    if hasattr(data, "__arrow_c_stream__"):
        from longhaul.runner.plain.frames import ArrowFrame  # noqa: PLC0415 - imports pyarrow

        return ArrowFrame(data)
    raise TypeError(
        f"a {type(data).__name__} is no data frame: neither Spark's, nor one of a library with"
        " Arrow's streams (pyarrow, pandas 2.2, polars, DuckDB; a lazy frame is collected first)"
    )
