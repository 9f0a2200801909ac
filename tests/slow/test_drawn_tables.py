"""More of the tables that `tests/runner/test_drawn_tables.py` draws."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from longhaul.testing import MakeJob
from tests.runner.drawn_tables import require_right
from tests.runner.spark_lake import served_lake

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 6, *range(100, 130)])
def test_a_drawn_table_is_read_alike_by_all(
    spark: SparkSession, tmp_path: Path, make_job: MakeJob, seed: int
) -> None:
    with served_lake(tmp_path, make_job) as lake:
        require_right(lake, spark, seed, filters=15)
