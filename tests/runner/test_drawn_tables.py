"""Drawn tables: what they hold, their statistics, and what drawn filters find in them.

Rows are compared with those that were written, and filters with Spark's over all rows.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from longhaul.testing import MakeJob
from tests.runner.drawn_tables import require_right
from tests.runner.spark_lake import SparkLake, served_lake


@pytest.fixture
def lake(tmp_path: Path, make_job: MakeJob) -> Iterator[SparkLake]:
    with served_lake(tmp_path, make_job) as served:
        yield served


def test_a_drawn_table_is_read_alike_by_all(lake: SparkLake, spark: SparkSession) -> None:
    require_right(lake, spark, seed=3, filters=6)
