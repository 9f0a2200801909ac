"""CSV in; typed rows and a quarantine with reasons out, and every row in one of the two."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import flights_clean
import pytest
from flights_clean import TYPES, Params
from pyspark.sql import SparkSession

from examples.demo.flights import spoil
from longhaul.job import PermanentJobError

HEADER = ",".join(TYPES)
GOOD = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
CANCELLED = "2013,2,28,NA,1630,NA,NA,1815,NA,EV,4308,NA,EWR,RDU,NA,416,16,30,2013-02-28T21:00:00Z"


@pytest.fixture
def csv(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, header: str = HEADER) -> Path:
        file = tmp_path / "flights.csv"
        file.write_text("\n".join((header, *lines)) + "\n")
        return file

    return write


def changed(**values: str) -> str:
    return ",".join(
        values.get(name, text) for name, text in zip(TYPES, GOOD.split(","), strict=True)
    )


def test_good_rows_are_typed_and_cancelled_flights_keep_their_gaps(
    spark: SparkSession, make_job: Any, written: Any, csv: Callable[..., Path]
) -> None:
    job = make_job({"flights": csv(GOOD, CANCELLED)}, Params())

    flights_clean.run(spark, job)

    rows = {row["flight"]: row for row in written(job)}
    assert rows[1545]["dep_delay"] == 2
    assert rows[1545]["time_hour"] == datetime(2013, 1, 1, 10)  # noqa: DTZ001 - Spark returns naive times in the session's zone
    assert (rows[4308]["dep_time"], rows[4308]["tailnum"]) == (None, None)
    assert [dataset.rows for dataset in job.written] == [2, 0]


def test_clean_rows_lie_in_one_file_for_each_month(
    spark: SparkSession, make_job: Any, csv: Callable[..., Path]
) -> None:
    job = make_job({"flights": csv(*[GOOD] * 40, *[CANCELLED] * 40)}, Params())

    flights_clean.run(spark, job)

    files = sorted(
        file.parent.relative_to(job.written[0].folder)
        for file in job.written[0].folder.rglob("*.parquet")
    )
    assert files == [Path("year=2013/month=1"), Path("year=2013/month=2")]


BAD_ROWS = {
    changed(month="13"): "month: not in 1 to 12",
    changed(month="February"): "month: not a whole number",
    changed(day="31", month="2"): "day: no such date",
    changed(dep_delay="2.5"): "dep_delay: not a whole number",
    changed(carrier=""): "carrier: missing",
    changed(carrier="  "): "carrier: missing",
    changed(sched_dep_time="NA"): "sched_dep_time: missing",
    changed(distance="0"): "distance: not above 0",
    changed(time_hour="noon"): "time_hour: not a time",
    changed(time_hour="10:00"): "time_hour: not a time",
    changed(flight="99999999999"): "flight: not a whole number",
    GOOD.rpartition(",")[0]: "row: not 19 columns",
    f"{GOOD},more": "row: not 19 columns",
    "just some text": "row: not 19 columns",
}


def test_a_bad_row_is_quarantined_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    name = "bad ü+#1%20.csv"
    (tmp_path / f"00007-{name}").write_text("\n".join((HEADER, *BAD_ROWS, GOOD)) + "\n")

    checked = flights_clean.check(flights_clean.read(spark, str(tmp_path)))

    rows = flights_clean.quarantine(checked).collect()  # one small file keeps its order
    assert [row["reason"] for row in rows] == list(BAD_ROWS.values())
    assert {row["file"] for row in rows} == {name}
    assert flights_clean.clean(checked).count() == 1


def test_another_header_is_permanent_and_not_other_columns(
    spark: SparkSession, make_job: Any, csv: Callable[..., Path]
) -> None:
    swapped = (
        HEADER.replace("dep_delay", "x").replace("arr_delay", "dep_delay").replace("x", "arr_delay")
    )
    job = make_job({"flights": csv(GOOD, header=swapped)}, Params())

    with pytest.raises(PermanentJobError, match="the header of a file is not year,month"):
        flights_clean.run(spark, job)


def test_too_many_bad_rows_make_the_input_bad(
    spark: SparkSession, make_job: Any, csv: Callable[..., Path]
) -> None:
    job = make_job({"flights": csv(GOOD, changed(month="0"))}, Params(max_bad_fraction=0.4))

    with pytest.raises(PermanentJobError, match="1 of 2 rows are bad"):
        flights_clean.run(spark, job)


def test_counts_of_the_spoiled_sample_are_exact(
    spark: SparkSession, make_job: Any, written: Any, tmp_path: Path
) -> None:
    month = tmp_path / "month.csv"
    month.write_text("\n".join([HEADER, *[GOOD] * 1_200]) + "\n")
    spoiled = spoil(month, tmp_path / "spoiled.csv")
    job = make_job({"flights": tmp_path / "spoiled.csv"}, Params())

    flights_clean.run(spark, job)

    reasons = Counter(row["reason"] for row in written(job, "quarantine", "json"))
    assert reasons == spoiled.bad
    assert {dataset.name: dataset.rows for dataset in job.written} == {
        ".": spoiled.rows - sum(spoiled.bad.values()),
        "quarantine": sum(spoiled.bad.values()),
    }
