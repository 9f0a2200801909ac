"""`make_job`, which tests of a project use: its inputs are those that a task would have."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.core.errors import PermanentJobError


def test_a_folder_of_files_is_one_input_with_its_partitions(
    spark: SparkSession, make_job: Any, tmp_path: Path
) -> None:
    hits = tmp_path / "hits [1]"
    for day, count in ((1, 2), (2, 1)):
        folder = hits / f"day={day}"
        folder.mkdir(parents=True)
        for n in range(count):
            (folder / f"part-{n}.csv").write_text(f"n\n{day}{n}\n")
    (hits / "_SUCCESS").write_text("")

    job = make_job({"hits": hits})

    rows = spark.read.csv(job.input("hits"), header=True).orderBy("n").collect()
    assert [(row["n"], row["day"]) for row in rows] == [("10", "1"), ("11", "1"), ("20", "2")]


@pytest.mark.parametrize("other", ["late.csv", "hour=1/a.csv", "day=2/hour=1/a.csv"])
def test_files_in_other_partition_folders_are_no_input_for_spark(
    make_job: Any, tmp_path: Path, other: str
) -> None:
    hits = tmp_path / "hits"
    for name in ("day=1/a.csv", other):
        (hits / name).parent.mkdir(parents=True, exist_ok=True)
        (hits / name).write_text("n\n1\n")

    with pytest.raises(PermanentJobError, match=r"'hits': .* parted by day, and .* by"):
        make_job({"hits": hits}).input("hits")

    assert make_job({"hits": hits}, plain=True).input("hits")


def test_a_relative_path_is_one_of_the_working_directory(
    spark: SparkSession, make_job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    monkeypatch.chdir(tmp_path)

    job = make_job({"one": Path("a.csv")})

    assert spark.read.csv(job.input("one"), header=True).count() == 1


def test_an_input_that_is_not_there_is_named(make_job: Any, tmp_path: Path) -> None:
    with pytest.raises(PermanentJobError, match="input 'hits': nothing at file://"):
        make_job({"hits": tmp_path / "nothing"})


def test_a_job_has_the_environment_of_its_stage_also_in_functions_that_spark_runs(
    spark: SparkSession, make_job: Any
) -> None:
    make_job({}, environment={"DB_PASSWORD": "hunter22"})

    assert os.environ["DB_PASSWORD"] == "hunter22"
    password = F.udf(lambda _: os.environ["DB_PASSWORD"])
    assert spark.range(1).select(password("id")).first() == ("hunter22",)


def test_the_environment_of_a_test_ends_with_it(spark: SparkSession) -> None:
    assert "DB_PASSWORD" not in os.environ
    assert "DB_PASSWORD" not in spark.sparkContext.environment


def test_what_a_job_writes_to_a_further_output_is_read_by_its_name(
    spark: SparkSession, make_job: Any, written: Any
) -> None:
    job = make_job({}, outputs=["report"])

    job.write(spark.range(2))
    assert job.write(spark.range(1), output="report") == 1

    assert (len(written(job)), written(job, output="report")) == (2, [{"id": 0}])
    with pytest.raises(ValueError, match=r"has written no dataset 'outputs\.other'"):
        written(job, output="other")
    with pytest.raises(PermanentJobError, match=r"needs an output 'other' .* given: report"):
        job.write(spark.range(1), output="other")
