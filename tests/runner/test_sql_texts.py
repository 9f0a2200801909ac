"""What a `sql` job reads of CSV, JSON and folders: the texts that are there, or a refusal by name.

The oracle is the file itself: no value changes by what it looks like, and no row goes or comes.
"""

import bz2
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from longhaul.catalogue import sql
from longhaul.job import PermanentJobError

Read = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def read(spark: SparkSession, make_job: Any, written: Any, tmp_path: Path) -> Read:
    """`read({"a.csv": b"…"})`: the rows of a query over these files."""

    def read_(files: dict[str, bytes], query: str = "SELECT * FROM t", **params: Any) -> Any:
        for name, content in files.items():
            (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "t" / name).write_bytes(content)
        job = make_job({"t": tmp_path / "t"}, sql.Params(query=query, **params))
        sql.run(spark, job)
        return sorted((tuple(row.values()) for row in written(job)), key=repr)

    return read_


VALUES = ["12D", "77E3", "08:15", "12:30:00", "00501", "0x1p3", "NaN", "+49170", "2013-01", "1e9"]


def test_columns_of_csv_are_texts_whatever_they_look_like(read: Read) -> None:
    rows = "".join(f"{n},{value}\n" for n, value in enumerate(VALUES))

    found = read({"a.csv": f"n,x\n{rows}".encode()})

    assert found == [(str(n), value) for n, value in enumerate(VALUES)]


def test_a_request_says_the_types_of_columns(read: Read) -> None:
    text = b'day,N,x,at\n1,2,1.25,2013-01-01 10:00:00\n,"",-1E3,2013-01-01T10:00:00+02:00\n'

    found = read(
        {"month=01/a.csv": text},
        "SELECT month, day + 1, n, x, date_format(at, 'HH') FROM t",
        columns={"t": "MONTH INT, day INT, n BIGINT, x DOUBLE, at TIMESTAMP"},
    )

    assert found == [(1, 2, 2, 1.25, "10"), (1, None, None, -1000.0, "08")]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("x", "int"),
        ("1.5", "int"),
        ("12D", "double"),
        ("12f", "float"),
        ("10:00", "timestamp"),
        ("T10:00", "timestamp"),
        ("10:00:00", "timestamp_ntz"),
        ("1.239", "decimal(9,2)"),
        ("1.5e-05", "decimal(9,2)"),
        ("12345e-4", "decimal(9,2)"),
        ("1e-99999999999", "decimal(9,2)"),
        ("1e400", "double"),
        ("-1e39", "float"),
        ("1e-400", "double"),
        ("2013-02-30", "date"),
        ("201301", "date"),
        ("2013", "date"),
        ("2013-01-05 23:59 lunch", "date"),
        ("2013-01-06Tgarbage", "date"),
        ("201301", "timestamp"),
        ("2013-01-05 10:00:00.1234567", "timestamp"),
        ("2013-01-05T10:00:00+02:00", "timestamp_ntz"),
        ("3000000000", "int"),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_file_and_column(
    read: Read, value: str, type_: str
) -> None:
    files = {
        "a.csv": b"n,x\n1,\n",
        "b é.csv": f'n,x\n"two\nlines",\n\n2,{value}\n3,{value}\n'.encode(),
    }

    with pytest.raises(PermanentJobError) as refused:
        read(files, columns={"t": f"x {type_}"})

    problem = f"input 't': b é.csv: a value of column x is no {type_}"
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("value", "type_", "found"),
    [
        ("1.500", "decimal(9,2)", "1.50"),
        ("15E-1", "decimal(9,2)", "1.50"),
        ("0E-18", "decimal(38,18)", "0.000000000000000000"),
        ("0e5", "double", "0.0"),
        ("-inf", "double", "-Infinity"),
        ("+12000-1-5", "date", "+12000-01-05"),
        ("2013-1-5", "timestamp", "2013-01-05 00:00:00"),
        ("2013-01-05 10:00:00.123456000", "timestamp", "2013-01-05 10:00:00.123456"),
        ("2013-01-05 10:00:00 Europe/Berlin", "timestamp", "2013-01-05 09:00:00"),
    ],
)
def test_a_value_that_loses_nothing_fits(read: Read, value: str, type_: str, found: str) -> None:
    query = "SELECT string(x) FROM t"

    assert read({"a.csv": f"x\n{value}\n".encode()}, query, columns={"t": f"x {type_}"}) == [
        (found,)
    ]


def test_a_folder_that_does_not_fit_is_named(read: Read) -> None:
    with pytest.raises(PermanentJobError, match=r"input 't': a value of column day is no int$"):
        read({"day=x/a.parquet": _parquet()}, columns={"t": "day INT"})


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"u": "x INT"}, "params.columns: there is no input 'u'"),
        ({"t": "y INT"}, "params.columns: input 't' has no column 'y'"),
        ({"t": "x ARRAY<INT>"}, "input 't': .*DATATYPE_MISMATCH"),
        ({"t": "x NOTHING"}, "params.columns of input 't': .*UNSUPPORTED_DATATYPE"),
        ({"t": '{"type": "struct"}'}, "params.columns of input 't': .*PARSE_SYNTAX_ERROR"),
        ({"t": "x INT DEFAULT 1"}, "params.columns of input 't': .*PARSE_SYNTAX_ERROR"),
    ],
)
def test_types_that_cannot_be_are_refused(read: Read, columns: dict[str, str], why: str) -> None:
    with pytest.raises(PermanentJobError, match=why):
        read({"a.csv": b"x\n1\n"}, columns=columns)


def test_a_column_that_is_no_text_has_no_other_type(read: Read) -> None:
    with pytest.raises(PermanentJobError, match="'n' of input 't' is bigint in its files"):
        read({"a.json": b'{"n": 1}\n'}, columns={"t": "n INT"})


MANY = b"".join(b"%d,y\n" % n for n in range(1_000))
NO_ROW = "a row has more or fewer values than the header, or a quote in a value is not doubled"
NO_HEADER = "its first line is not the header"
NO_END = "a quote has no end"
NO_TEXT = "it is no text in UTF-8"
NO_OBJECT = "a line is not one JSON object"
TWO_ENDS = "its first line ends with LF, and another with CR LF"
NOT_WHOLE = "it is not whole, or not packed so"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"a,b\n1,2\n3,4,5\n", NO_ROW),
        ("a.csv", b'a,b\n"x\ny",2\n3\n', NO_ROW),
        ("a.csv", b"a,b\n1,2\n" + b'2,"x" y\n' * 9_000, NO_ROW),
        ("a.csv", b"a,b\r\n1,2\n3", NO_ROW),
        ("a.csv", b'a,b\n1,"x\n' + MANY, NO_END),
        ("a.csv", b'a,b\n1,2\n3,"x', NO_END),
        ("a.csv", b'a,b\n1,5" pipe\n', NO_END),
        ("a.csv", b"a,b\n1,2\r\n", TWO_ENDS),
        ("a.csv", b'a,b\n"1\r\n",2\n3,4\r\n', TWO_ENDS),
        ("a.csv", b'"a\n",b\r\n1,2\r\n', NO_HEADER),
        ("a.csv", b'"a\r\n",b\n1,2\n', NO_HEADER),
        ("a.csv", b'"a\r",b\n1,2\n', NO_HEADER),
        ("a.csv", b'"a"x,b\n1,2\n', NO_HEADER),
        ("a.csv", b"\na,b\n1,2\n", NO_HEADER),
        ("a.csv", b"a,b\r1,2\r3,4\r", NO_HEADER),
        ("a.csv", b"b,a\n1,2\n", "its header is not that of 0-a.csv: "),
        ("a.csv", b"a,b,c\n1,2,3\n", "its header is not that of 0-a.csv: "),
        ("a.csv", "a,b\n1,Müller\n".encode("cp1252"), NO_TEXT),
        ("a.csv", "a,b\n1,x\n".encode("utf-16"), NO_TEXT),
        ("a.csv", "a,b\n1,x\n".encode("utf-16-le"), NO_TEXT),
        ("a.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), NO_TEXT),
        ("a.csv", bz2.compress(b"a,b\n1,2\n"), NO_TEXT),
        ("a.csv.gz", b"a,b\n1,2\n", NOT_WHOLE),
        ("a.csv.gz", gzip.compress(b"a,b\n" + MANY, mtime=0)[:-300], NOT_WHOLE),
        ("a.json", b'{"a":1}{"a":2}{"a":3}', NO_OBJECT),
        ("a.json", b'{"a":"}{"}\n{"a":"x"} {"a":"y"}\n', NO_OBJECT),
        ("a.json", b'{"a":1},{"a":2}\n', NO_OBJECT),
        ("a.json", b'{"a":1}\n\n{"a":3', NO_OBJECT),
        ("a.json", b'[\n {"a":1},\n {"a":2}\n]\n', NO_OBJECT),
        ("a.json", b'{"a":1}\n{"a":"x\ty"}\n', NO_OBJECT),
        ("a.json", b'{"a":1}\n5\n', NO_OBJECT),
        ("a.json", b'{"a":1}\n"x"\n', NO_OBJECT),
        ("a.json", '{"a":"é"}\n'.encode("latin-1"), NO_TEXT),
        ("a.json", '{"a":1}\n'.encode("utf-16"), NO_TEXT),
        ("a.json", gzip.compress(b'{"a":1}\n', mtime=0), NO_TEXT),
    ],
)
def test_a_broken_file_is_refused_by_its_name_whatever_the_query_takes(
    read: Read, name: str, content: bytes, why: str
) -> None:
    whole = {"csv": b"a,b\n7,8\n", "json": b'{"a":1}\n'}[name.split(".")[1]]
    files = {f"0-{name.removesuffix('.gz')}": whole, name: content}

    with pytest.raises(PermanentJobError) as refused:
        read(files, "SELECT count(*) FROM t")

    assert str(refused.value).startswith(f"input 't': {name}: {why}")


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.csv", b",b\n1,2\n", [("1", "2")]),  # the index that pandas writes
        ("a.csv", b"\xef\xbb\xbfa,b\r\n1,\xc3\xa9\r\n", [("1", "é")]),
        ("a.csv", b'a,b\r\n"1\n",2\r\n', [("1\n", "2")]),
        ("a.csv", b'a,b\n"1\r\n",2\n', [("1\r\n", "2")]),
        # Univocity makes LF of what ends the rows, wherever it is, and Spark cannot forbid that.
        ("a.csv", b'a,b\r\n"1\r\n",2\r\n', [("1\n", "2")]),
        ("a.csv", b"a,b\n\n1,2\n\n", [("1", "2")]),
        (
            "a.csv.gz",
            gzip.compress(b"a,b\n1,2\n", mtime=0) + gzip.compress(b"3,4\n", mtime=0),
            [("1", "2"), ("3", "4")],
        ),
        ("a.json", b'\xef\xbb\xbf{"a":1}\r\n \n{"a":2}', [(1,), (2,)]),
        ("a.json", b'[{"a":1},{"a":2}]\n', [(1,), (2,)]),
        ("a.json", b'{"_corrupt_record":"{bad","n":1}\n', [("{bad", 1)]),
    ],
)
def test_files_that_are_whole_are_read(
    read: Read, name: str, content: bytes, rows: list[tuple[Any, ...]]
) -> None:
    assert read({name: content}) == rows


def _parquet() -> bytes:
    import io  # noqa: PLC0415

    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    out = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), out)
    return out.getvalue()


def test_names_of_folders_are_texts(read: Read) -> None:
    files = {f"zip={each}/a.parquet": _parquet() for each in ("00501", "02134")}

    assert read(files) == [(1, "00501"), (1, "02134")]


def test_job_read_gives_columns_the_types_that_their_job_wrote(
    spark: SparkSession, make_job: Any
) -> None:
    frame = spark.sql("SELECT '00501' zip, 7 n, '12D' seat, timestamp'2020-01-01 08:15:00' at")
    job = make_job({})
    job.write(frame, partition_by=["zip", "n", "at"])
    following = make_job({"rows": job.written[0].folder})
    known = following.staged["rows"]
    following.staged = {"rows": replace(known, types=job.written[0].types)}

    read = following.read("rows", spark.read.format("parquet"))

    assert read.select(frame.columns).dtypes == frame.dtypes
    assert read.select(frame.columns).collect() == frame.collect()
    # Folders are still left out by their names.
    plan = read.where("n = 8")._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [" in plan.replace("PartitionFilters: []", "")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"compression": "gzip", "maxRecordsPerFile": "5"}, {"at": "date", "n": "integer"}),
        ({"dateFormat": "yyyy-dd-MM"}, {"n": "integer"}),
    ],
)
def test_csv_that_a_job_wrote_in_a_way_of_its_own_has_texts(
    spark: SparkSession, make_job: Any, options: dict[str, str], kept: dict[str, str]
) -> None:
    job = make_job({})

    job.write(
        spark.sql("SELECT date'2020-02-01' at, 7 n"),
        format="csv",
        partition_by=["n"],
        options=options,
    )

    assert job.written[0].types == kept


def test_of_a_file_that_has_no_columns_for_spark_the_input_is_named(read: Read) -> None:
    with pytest.raises(PermanentJobError, match=rf"^input 't': {NO_ROW}"):
        read({"a.csv": b'a,b\n2,"x" y\n'})
