"""What comes in compressed and what goes out in each format, by real Spark."""

import bz2
import csv
import datetime as dt
import gzip
import io
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from longhaul.catalogue import sql
from longhaul.job import Format, Params, PermanentJobError
from longhaul.runner.running_job import RunningJob


@pytest.fixture
def staged(make_job: Any, tmp_path: Path) -> Any:
    """`staged({"a.csv": b"…"})`: a job with these files as its input `rows`."""

    def build(files: dict[str, bytes], params: Params) -> RunningJob[Any]:
        folder = tmp_path / "rows"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return make_job({"rows": folder}, params)

    return build


@pytest.mark.parametrize(
    ("files", "columns", "rows"),
    [
        # Compressed files beside plain ones.
        (
            {
                "a.csv": b"n\n1\n",
                "b.csv.gz": gzip.compress(b"n\n2\n"),
                "c.csv.bz2": bz2.compress(b"n\n3\n"),
                "D.CSV.GZ": gzip.compress(b"n\n4\n"),
            },
            "",
            [("1",), ("2",), ("3",), ("4",)],
        ),
        # The same columns, however the headers are written.
        (
            {"a.csv": b"n,m\n1,2\n", "b.csv": b'\xef\xbb\xbf"N","m"\r\n1,2\r\n', "c.csv": b""},
            "",
            [("1", "2")] * 2,
        ),
        ({"a.csv": b",n\n1,2\n", "b.csv": b",n\n1,2\n"}, "", [("1", "2")] * 2),  # pandas' index
        ({"a.csv": b"n,n\n1,2\n", "b.csv": b"n,n\n1,2\n"}, "", [("1", "2")] * 2),
        # A quoted empty value is a text, and no number.
        (
            {"a.csv": b'n,text,day,m\n"1","","2020-01-01","7"\n"","a","","8"\n,,,\n'},
            "n INT, day DATE, m INT",
            [(1, "", dt.date(2020, 1, 1), 7), (None, "a", None, 8), (None, None, None, None)],
        ),
    ],
    ids=["compressed", "same headers", "index of pandas", "twice", "quoted and empty"],
)
def test_files_of_csv_are_read_together(
    spark: SparkSession,
    staged: Any,
    written: Any,
    files: dict[str, bytes],
    columns: str,
    rows: list[tuple[Any, ...]],
) -> None:
    types = {"rows": columns} if columns else {}
    job = staged(files, sql.Params(query="SELECT * FROM rows", columns=types))

    sql.run(spark, job)

    assert sorted((tuple(row.values()) for row in written(job)), key=repr) == sorted(rows, key=repr)


def test_small_files_are_read_together(spark: SparkSession, staged: Any) -> None:
    job = staged({f"{number}.csv": b"n\n1\n" for number in range(100)}, Params())

    rows = spark.read.csv(job.input("rows"), header=True)

    assert rows.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism


def test_quoted_quotes_and_line_breaks_in_csv_are_read_and_written(
    spark: SparkSession, staged: Any, written: Any
) -> None:
    files = {
        "a.csv": b'n,text\n1,"say ""hi"", ok"\n2,"two\nlines"\n',
        "b.csv.gz": gzip.compress(b'"n","text"\r\n3,back\\slash\\\r\n4,"a\r\n\r\nb"\r\n'),
    }
    job = staged(files, sql.Params(query="SELECT n, text FROM rows", format="csv"))

    sql.run(spark, job)

    assert sorted(tuple(row.values()) for row in written(job, format_="csv")) == [
        ("1", 'say "hi", ok'),
        ("2", "two\nlines"),
        ("3", "back\\slash\\"),
        ("4", "a\n\nb"),
    ]


@pytest.mark.parametrize("name", ["a.csv.zip", "a.csv.xz", "a.CSV.ZST", "a.tar", "a.csv.gzip"])
def test_compressions_that_spark_reads_as_rows_are_refused(staged: Any, name: str) -> None:
    job = staged({name: b"PK"}, Params())
    with pytest.raises(
        PermanentJobError, match=r"Spark does not unpack \.\w+ files: send them as gz or bz2"
    ):
        job.input("rows")


@pytest.mark.parametrize("format_", get_args(Format))
def test_each_format_is_written_in_partitions_and_read_back(
    spark: SparkSession, make_job: Any, format_: Format
) -> None:
    job = make_job({})
    frame = spark.createDataFrame(
        [(1, "x", "a"), (2, "y", "b"), (3, None, "b")], "n int, text string, part string"
    )

    assert job.write(frame, format=format_, partition_by=["part"]) == 3

    folder = job.written[0].folder
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"part=a", "part=b"}
    read = (
        spark.read.format(format_)
        .schema("n int, text string, part string")
        .option("header", value=True)
    )
    rows = read.load(folder.as_uri()).orderBy("n").collect()
    assert [tuple(row) for row in rows] == [(1, "x", "a"), (2, "y", "b"), (3, None, "b")]


TEXTS = st.none() | st.lists(
    st.sampled_from(
        [
            *"\",;\n\r\t \\#'aé😀\x00\x0b\x1f\x85\u00a0\u2028\ufeff",
            '""',
            '\\"',
            "\r\n",
            "null",
            "NA",
        ]
    )
    | st.characters(exclude_categories=["Cs"]),
    max_size=6,
).map("".join)


def passed_on(spark: SparkSession, make_job: Any, frame: DataFrame) -> DataFrame:
    """What `sql` reads of the CSV that a job wrote."""
    job = make_job({})
    job.write(frame, format="csv")
    following = make_job({"rows": job.written[0].folder})
    found, _ = sql.read(spark, "rows", following.input("rows"), "csv", job.written[0].types)
    return found


@settings_of_hypothesis(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=20, max_size=100))
@example([(" a\t", "\x00b\x00"), ("", None), (None, None), ("\\", '"\x00\n"')])
def test_texts_and_nulls_come_through_csv_as_they_were(
    spark: SparkSession, make_job: Any, rows: list[tuple[Any, Any]]
) -> None:
    names = [' "x', "y,z"]
    schema = StructType([StructField(name, StringType()) for name in names])

    read = passed_on(spark, make_job, spark.createDataFrame(rows, schema).coalesce(1))

    assert read.columns == names
    assert [tuple(row) for row in read.collect()] == rows


@settings_of_hypothesis(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=20, max_size=100))
@example(["a", None, "", " ", "\x00"])
def test_a_lone_column_keeps_its_rows_in_csv(
    spark: SparkSession, make_job: Any, texts: list[str | None]
) -> None:
    frame = spark.createDataFrame([(text,) for text in texts], "x string").coalesce(1)

    read = passed_on(spark, make_job, frame)

    assert [row["x"] for row in read.collect()] == [text or "" for text in texts]


def test_a_column_of_csv_may_have_the_name_that_spark_gives_to_corrupt_lines(
    spark: SparkSession, make_job: Any
) -> None:
    frame = spark.createDataFrame([("x", 1), ("y", 2)], "_corrupt_record string, n int")

    read = passed_on(spark, make_job, frame.coalesce(1))

    assert [tuple(row) for row in read.collect()] == [("x", 1), ("y", 2)]


def test_python_reads_the_csv_that_a_job_writes(spark: SparkSession, make_job: Any) -> None:
    rows = [(" a\t", "b\x00"), ('"', ","), ("c\r\nd", ""), ("\\", "#"), (None, "e")]
    job = make_job({})

    job.write(spark.createDataFrame(rows, "x string, y string").coalesce(1), format="csv")

    (file,) = job.written[0].folder.glob("part-*")
    read = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""), strict=True)
    assert [tuple(row) for row in read] == [("x", "y"), *rows[:-1], ("", "e")]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_values_of_all_types_come_through_text_as_they_were(
    spark: SparkSession, make_job: Any, format_: Format, zone: str
) -> None:
    types = {
        "n": "int",
        "big": "bigint",
        "real": "double",
        "single": "float",
        "exact": "decimal(9,2)",
        "yes": "boolean",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
    }
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        values = (
            "select * from values"
            " (1, 9223372036854775807L, 2.5D, 1.5F, 1.50BD, true, date'2020-02-29',"
            "  timestamp'2020-01-01 00:00:00.123456', timestamp_ntz'2020-01-01 00:00:00.123456'),"
            " (-2147483648, null, double('NaN'), float('Infinity'), -0.01BD, false,"
            "  date'0001-01-01', timestamp'0001-01-01 00:00:00.000001',"
            "  timestamp_ntz'0001-01-01 00:00:00'),"
            " (null, -9223372036854775808L, -0.0D, float('-Infinity'), null, null,"
            "  date'9999-12-31', timestamp'1850-06-01 12:00:00',"
            "  timestamp_ntz'9999-12-31 23:59:59.999999'),"
            " (null, null, 1e-300D, null, 9999999.99BD, null, null, null, null)"
        )
        frame = spark.sql(values).toDF(*types)
        frame = frame.selectExpr(
            *(f"cast({name} as {kind}) {name}" for name, kind in types.items())
        )
        job = make_job({})
        job.write(frame.coalesce(1), format=format_)

        written = job.written[0]
        read, _ = sql.read(spark, "rows", written.folder.as_uri(), format_, written.types)

        if format_ == "csv":
            assert read.dtypes == frame.dtypes
        back = read.selectExpr(*(f"cast({name} as {kind}) {name}" for name, kind in types.items()))
        as_texts = [f"cast({name} as string)" for name in types]
        assert [*map(tuple, back.selectExpr(as_texts).collect())] == [
            *map(tuple, frame.selectExpr(as_texts).collect())
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_json_without_rows_is_refused_as_an_input_and_says_what_to_do(
    spark: SparkSession, make_job: Any
) -> None:
    job = make_job({})
    frame = spark.createDataFrame([], "n int, part string")
    job.write(frame, format="json", partition_by=["part"])

    with pytest.raises(PermanentJobError, match="JSON without rows has no columns: write another"):
        make_job({"rows": job.written[0].folder}).input("rows")


@pytest.mark.parametrize("format_", ["parquet", "csv", "orc"])
def test_a_parted_output_without_rows_keeps_its_columns(
    spark: SparkSession, make_job: Any, format_: Format
) -> None:
    job = make_job({})
    frame = spark.createDataFrame([], "void int, text string, `a:b` string, part string")

    assert job.write(frame, format=format_, partition_by=["a:b", "PART"]) == 0

    following = make_job({"rows": job.written[0].folder})
    read, _ = sql.read(spark, "rows", following.input("rows"), format_, {})
    assert (sorted(read.columns), read.count()) == (["PART", "a:b", "text", "void"], 0)
    assert following.write(read, format=format_) == 0  # no writer takes a column without a type


def test_a_column_of_nulls_stays_in_json(spark: SparkSession, make_job: Any, written: Any) -> None:
    job = make_job({})
    frame = spark.sql("SELECT 1 n, string(null) gone, named_struct('a', 1, 'b', int(null)) s")

    job.write(frame, format="json")

    assert written(job, format_="json") == [{"n": 1, "gone": None, "s": (1, None)}]
    following = make_job({"rows": job.written[0].folder})
    read, _ = sql.read(spark, "rows", following.input("rows"), "json", {})
    assert sorted(read.columns) == ["gone", "n", "s"]


@pytest.mark.parametrize("column", [".p", "._p"])
def test_a_partition_that_readers_skip_is_refused(
    spark: SparkSession, make_job: Any, column: str
) -> None:
    with pytest.raises(PermanentJobError, match="names begin with a dot: rename the column"):
        make_job({}).write(spark.range(1).toDF(column), partition_by=[column])


def test_a_partition_may_begin_with_an_underscore_and_hold_colons(
    spark: SparkSession, make_job: Any, written: Any, tmp_path: Path
) -> None:
    for time in ("12:00", "13:30"):
        (tmp_path / f"_time={time}").mkdir()
        (tmp_path / f"_time={time}" / "a.csv").write_text(f"n\n{time[:2]}\n")
    query = "SELECT n, _time FROM rows"
    job = make_job({"rows": tmp_path}, sql.Params(query=query, partition_by=("_time",)))

    sql.run(spark, job)

    following = make_job(
        {"rows": job.written[0].folder}, sql.Params(query="SELECT n FROM rows ORDER BY n")
    )
    sql.run(spark, following)
    assert written(following) == [{"n": "12"}, {"n": "13"}]


def test_a_function_that_fails_once_is_called_again(spark: SparkSession, tmp_path: Path) -> None:
    mark = tmp_path / "called"

    def fail_once(n: int) -> int:
        if not mark.exists():
            mark.touch()
            raise ConnectionError("once")
        return n

    assert spark.sparkContext.parallelize([7], 1).map(fail_once).collect() == [7]


def test_an_output_of_too_many_files_is_refused_by_the_write_that_makes_it_so(
    spark: SparkSession, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.runner.io.written.MAX_FILES", 3)
    job = make_job({})
    job.write(spark.range(0, 4, 1, 2), "first")

    with pytest.raises(PermanentJobError, match="4 files are more than an output may have"):
        job.write(spark.range(0, 4, 1, 2), "second")
