"""Data frames of Spark, as a job writes them and has them back."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses
from pyspark.sql.types import StructType

from longhaul.runner.io.frame import WriteOptions, partition_of_nulls, require_columns, writing
from longhaul.runner.io.written import Folder, TableLayout
from longhaul.runner.spark.splitting import quoted, split


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

    def stored(self, folder: Folder, columns: str, *, is_empty: bool) -> DataFrame:
        spark, schema = self._df.sparkSession, StructType.fromJson(json.loads(columns))
        if is_empty:  # Spark wrote no file for a frame without partitions
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(folder.as_uri())
