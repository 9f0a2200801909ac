"""Drawn tables: what they hold, their statistics, and what drawn filters find in them.

Rows are compared with those that were written, and filters with Spark's over all rows.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from longhaul.testing import MakeJob
from tests.runner.drawn_tables import require_right
from tests.runner.spark_lake import served_lake


@pytest.mark.parametrize(
    ("seed", "filters"),
    [(3, 6), *(pytest.param(n, 15, marks=pytest.mark.slow) for n in (1, 6, *range(100, 130)))],
)
def test_a_drawn_table_is_read_alike_by_all(
    tmp_path: Path, make_job: MakeJob, spark: SparkSession, seed: int, filters: int
) -> None:
    with served_lake(tmp_path, make_job) as lake:
        require_right(lake, spark, seed, filters)
