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
def test_a_value_that_does_not_fit_is_named_by_file_line_and_column(
    read: Read, value: str, type_: str
) -> None:
    files = {
        "a.csv": b"n,x\n1,\n",
        "b é.csv": f'n,x\n"two\nlines",\n\n2,{value}\n3,{value}\n'.encode(),
    }

    with pytest.raises(PermanentJobError) as refused:
        read(files, columns={"t": f"x {type_}"})

    problem = f"input 't': b é.csv: line 5: a value of column x is no {type_}"
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("file", "text", "column"),
    [
        ("a.csv", b",n\nx,1\n", "_c0"),
        ("a.csv", b"id,id\n1,x\n", "id1"),
        ("day=x/a.csv", b"n\n1\n", "day"),
    ],
)
def test_a_value_whose_column_is_not_in_the_header_is_named_without_a_line(
    read: Read, file: str, text: bytes, column: str
) -> None:
    with pytest.raises(PermanentJobError) as refused:
        read({file: text}, columns={"t": f"{column} INT"})

    assert str(refused.value) == f"input 't': a.csv: a value of column {column} is no int"


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


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"a,b\n1,2\n3,4,5\n", "line 3 has 3 values, and the header 2"),
        ("a.csv", b'a,b\n"x\ny",2\n3\n', "line 4 has 1 values, and the header 2"),
        ("a.csv", b'a,b\n1,"x\n' + MANY, "the row of line 2 has a quote that never ends"),
        ("a.csv", b'a,b\n1,2\n3,"x', "the row of line 3 has a quote that never ends"),
        ("a.csv", b'a,b\n2,"x" y\n', "the row of line 2 has a quote within a value"),
        ("a.csv", b'a,b\n"1\r\n",2\n3,4\r\n', "line 4 ends with '\\r\\n', and the header"),
        ("a.csv", b'"a\n",b\r\n1,2\r\n', "line 1 ends with '\\n', and the header with '\\r\\n'"),
        ("a.csv", b'"a\r\n",b\n1,2\n', "line 1 ends with '\\r\\n', and the header with '\\n'"),
        ("a.csv", b'"a\r",b\n1,2\n', "line 1 ends with '\\r', and the header with '\\n'"),
        ("a.csv", b"a,b\r\n1,2\n3,4", "line 2 ends with '\\n', and the header with '\\r\\n'"),
        ("a.csv", "a,b\n1,Müller\n".encode("cp1252"), "line 2 is no UTF-8"),
        ("a.csv", "a,b\n1,x\n".encode("utf-16"), "it is in UTF-16"),
        ("a.csv", "a,b\n1,x\n".encode("utf-16-le"), "it is in UTF-16"),
        ("a.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "it is gzip: give it the extension"),
        ("a.csv", bz2.compress(b"a,b\n1,2\n"), "it is bzip2: give it the extension"),
        ("a.csv", b"PK\x03\x04\xff\xff", "it is zip: give it the extension"),
        ("a.csv.gz", b"a,b\n1,2\n", "it cannot be read: Unexpected end"),
        (
            "a.csv.gz",
            gzip.compress(b"a,b\n" + MANY, mtime=0)[:-300],
            "it cannot be read: Unexpected end",
        ),
        ("a.json", b'{"a":1}{"a":2}{"a":3}', "line 1 is not one JSON value"),
        ("a.json", b'{"a":"}{"}\n{"a":"x"} {"a":"y"}\n', "line 2 is not one JSON value"),
        ("a.json", b'{"a":1},{"a":2}\n', "line 1 is not one JSON value"),
        ("a.json", b'{"a":1}\n\n{"a":3', "line 3 is not one JSON value"),
        ("a.json", b'[\n {"a":1},\n {"a":2}\n]\n', "line 1 is not one JSON value"),
        ("a.json", b'{"a":1}\n{"a":"x\ty"}\n', "line 2 is not one JSON value"),
        ("a.json", b'{"a":1}\n5\n', "line 2 is no JSON object"),
        ("a.json", b'{"a":1}\n"x"\n', "line 2 is no JSON object"),
        ("a.json", '{"a":"é"}\n'.encode("latin-1"), "line 1 is no UTF-8"),
        ("a.json", '{"a":1}\n'.encode("utf-16"), "it is in UTF-16"),
        ("a.json", gzip.compress(b'{"a":1}\n', mtime=0), "it is gzip: give it the extension"),
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
        ("a.csv", b'a,b\n1,5" pipe\n', [("1", '5" pipe')]),  # one quote, and whole
        ("a.csv", b"\xef\xbb\xbfa,b\r\n1,\xc3\xa9\r\n", [("1", "é")]),
        ("a.csv", b'a,b\n"1\r\n",2\n', [("1\r\n", "2")]),
        # Univocity makes LF of what ends the rows, wherever it is, and Spark cannot forbid that.
        ("a.csv", b'a,b\r\n"1\r\n",2\r\n', [("1\n", "2")]),
        ("a.csv", b"a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")]),
        ("a.csv", b"a,b\n\n1,2\n\n", [("1", "2")]),
        (
            "a.csv.gz",
            gzip.compress(b"a,b\n1,2\n", mtime=0) + gzip.compress(b"3,4\n", mtime=0),
            [("1", "2"), ("3", "4")],
        ),
        ("a.json", b'\xef\xbb\xbf{"a":1}\r\n \n{"a":2}', [(1,), (2,)]),
        ("a.json", b'[{"a":1},{"a":2}]\n', [(1,), (2,)]),
        ("a.json", b'{"_corrupt_record":"{bad","n":1}\n', [("{bad", 1)]),
        ("a.json", b"{'a':NaN}\n", [(float("inf"),)]),
    ],
)
def test_files_that_are_whole_are_read(
    read: Read, name: str, content: bytes, rows: list[tuple[Any, ...]]
) -> None:
    if b"NaN" in content:
        content = content.replace(b"'", b'"').replace(b"NaN", b"Infinity")
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


def test_the_error_of_a_query_opens_no_file_that_it_names(read: Read, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a\nsecret\n")
    forged = f'{{"input":"t","file":"{other.as_uri()}","column":"a","type":"x","value":"secret"}}'

    with pytest.raises(PermanentJobError) as refused:
        read({"a.csv": b"a\n1\n"}, f"SELECT raise_error('{forged}') FROM t")  # noqa: S608 - a test's own

    assert str(refused.value) == "input 't': a value of column a is no x"
