"""Hand-computed days."""

from datetime import date
from pathlib import Path
from typing import Any

import daily_delays
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from longhaul.job import PermanentJobError

COLUMNS = "year int, month int, day int, carrier string, dep_time int, dep_delay int"
RESULT = (
    "day date, carrier string, flights long, cancelled long, mean_dep_delay double,"
    " p95_dep_delay double"
)


def test_delays_by_day_and_carrier(spark: SparkSession) -> None:
    flights = [
        *((2013, 1, 1, "UA", 500 + delay, delay) for delay in (0, 10, 20, 30, -10)),
        (2013, 1, 1, "UA", None, None),
        (2013, 1, 1, "AA", 700, 5),
        (2013, 1, 2, "AA", None, None),
    ]

    result = daily_delays.daily_delays(spark.createDataFrame(flights, COLUMNS))

    # Sorted -10 0 10 20 30: rank 0.95 * 4 = 3.8, that is 20 + 0.8 * 10.
    expected = [
        (date(2013, 1, 1), "AA", 1, 0, 5.0, 5.0),
        (date(2013, 1, 1), "UA", 6, 1, 10.0, 28.0),
        (date(2013, 1, 2), "AA", 1, 1, None, None),
    ]
    assertDataFrameEqual(result, spark.createDataFrame(expected, RESULT), checkRowOrder=True)


def test_every_input_is_read(
    spark: SparkSession, make_job: Any, written: Any, tmp_path: Path
) -> None:
    row = {"year": 2013, "day": 1, "carrier": "UA", "dep_time": 1, "dep_delay": 1}
    files = {}
    for month in (1, 2):
        folder = tmp_path / f"clean-{month}"
        spark.createDataFrame([row | {"month": month}], COLUMNS).coalesce(1).write.parquet(
            str(folder)
        )
        (files[f"m{month}"],) = folder.glob("*.parquet")
    job = make_job(files)

    daily_delays.run(spark, job)

    assert [str(row["day"]) for row in written(job)] == ["2013-01-01", "2013-02-01"]
    again = make_job(files, after=job)
    daily_delays.run(spark, again)
    assert again.taken_over == "2 parts"


def test_inputs_without_flights_are_permanent(spark: SparkSession) -> None:
    with pytest.raises(PermanentJobError, match="no flights"):
        daily_delays.months(spark.createDataFrame([], COLUMNS))


def test_no_input_is_permanent(spark: SparkSession, make_job: Any) -> None:
    with pytest.raises(PermanentJobError, match="at least one input"):
        daily_delays.run(spark, make_job({}))
