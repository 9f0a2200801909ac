"""What frames without Spark become: the values, types and folders of a job with Spark."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longhaul.job import PermanentJobError
from longhaul.runner.frames import frame_of
from longhaul.runner.io.frame import WriteOptions

AT = datetime(2026, 1, 31, 12, 0, 0, 7, tzinfo=UTC)
ROWS = pa.table(
    {
        "text": ["a,b", "", None],
        "ratio": [1.0, float("nan"), 2.5],
        "at": pa.array([AT, None, AT], pa.timestamp("us", "Europe/Oslo")),
        "price": pa.array([Decimal("1.10"), None, Decimal(2)], pa.decimal128(10, 2)),
    }
)
NO_UTF8 = pa.array([b"\xff"]).view(pa.string())
YEARS = pa.array([-719_162, 2_932_896, None], pa.date32())
TRUTHS = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The text of each file, by its folder."""

    def write(data: object, format_: str, *partition_by: str, **options: str) -> dict[str, str]:
        folder = tmp_path / "out"
        frame_of(data).write(folder, WriteOptions(format_, partition_by, options))  # type: ignore[arg-type]
        files = [each for each in folder.rglob("*") if each.is_file()]
        return {
            each.parent.relative_to(folder).as_posix(): each.read_text(errors="replace")
            for each in files
        }

    return write


@pytest.mark.parametrize(
    ("data", "format_", "text"),
    [
        (
            ROWS,
            "csv",
            (
                '"text","ratio","at","price"\n'
                '"a,b","1.0","2026-01-31T12:00:00.000007Z",1.10\n'
                '"","NaN",,\n'
                ',"2.5","2026-01-31T12:00:00.000007Z",2.00\n'
            ),
        ),
        # A null alone in a line is no blank line, and the first and the last year have a text.
        (pa.table({"n": [1, None]}), "csv", '"n"\n"1"\n""\n'),
        (pa.table({"at": YEARS}), "csv", '"at"\n"0001-01-01"\n"9999-12-31"\n""\n'),
        # Truth in a byte.
        (pa.table({"is": TRUTHS, "n": [1, 2, 3]}), "csv", '"is","n"\ntrue,1\nfalse,2\n,3\n'),
        (
            ROWS.slice(0, 2),
            "json",
            (
                '{"text":"a,b","ratio":1.0,"at":"2026-01-31T12:00:00.000007Z","price":1.10}\n'
                '{"text":"","ratio":"NaN","at":null,"price":null}\n'
            ),
        ),
        (duckdb.sql("SELECT 1 AS n, 'x' AS text"), "json", '{"n":1,"text":"x"}\n'),
    ],
)
def test_values_are_written_as_spark_writes_them(
    written: Callable[..., dict[str, str]], data: object, format_: str, text: str
) -> None:
    assert written(data, format_)["."] == text


def test_folders_are_named_as_spark_names_them(written: Callable[..., dict[str, str]]) -> None:
    assert sorted(written(ROWS, "json", "text", "at")) == [
        "text=__HIVE_DEFAULT_PARTITION__/at=2026-01-31 12%3A00%3A00.000007",
        "text=__HIVE_DEFAULT_PARTITION__/at=__HIVE_DEFAULT_PARTITION__",
        "text=a,b/at=2026-01-31 12%3A00%3A00.000007",
    ]


@pytest.mark.parametrize("partition_by", [(), ("text",)])
def test_a_frame_without_rows_keeps_its_columns(
    tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    frame = frame_of(ROWS.slice(0, 0))
    assert frame.write(tmp_path / "out", WriteOptions("parquet", partition_by, {})) == 0
    (file,) = (tmp_path / "out").rglob("*.parquet")
    assert set(pq.read_schema(file).names) == set(ROWS.column_names) - set(partition_by)


def test_types_are_those_that_spark_reads() -> None:
    schema = pa.schema(
        [
            ("n", pa.uint32()),
            ("text", pa.string_view()),
            ("kind", pa.dictionary(pa.int8(), pa.large_string())),
            ("at", pa.timestamp("ns")),
            ("list", pa.large_list(pa.uint8())),
        ]
    )
    frame = frame_of(schema.empty_table())
    assert [each in frame.columns for each in ('"long"', '"timestamp_ntz"', '"short"')] == [
        True
    ] * 3
    assert frame.columns.count('"type": "string"') == 2


@pytest.mark.parametrize(
    ("data", "how", "said"),
    [
        (pa.table({"n": pa.array([1], pa.timestamp("ns"))}), {}, "microseconds at most"),
        (pa.table({"n": pa.array([1], pa.duration("s"))}), {}, "neither Spark nor a table"),
        (pa.table({"n": pa.nulls(1)}), {}, "neither Spark nor a table"),
        (pa.table({"n": [1], "N": [2]}), {}, "have one name"),
        (pa.table({"n": [[1]]}), {"format_": "csv"}, "CSV holds no list"),
        (pa.table({"n": [1]}), {"format_": "orc"}, "becomes parquet, csv or json"),
        (pa.table({"n": [1]}), {"sep": ";"}, "takes compression alone"),
        (pa.table({"x": NO_UTF8, "n": [1]}), {"parted": "x"}, "no UTF-8 names no folder"),
    ],
)
def test_what_cannot_be_written_says_why(
    written: Callable[..., dict[str, str]], data: pa.Table, how: dict[str, Any], said: str
) -> None:
    parted = [how.pop("parted")] if "parted" in how else []
    with pytest.raises(PermanentJobError, match=said):
        written(data, how.pop("format_", "parquet"), *parted, **how)


RUNS = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", "b"]))
PAIRS = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
BY_STRUCT = pa.map_(pa.struct([("a", pa.int64())]), pa.int64())


@pytest.mark.parametrize("format_", ["parquet", "json"])
@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([{}], pa.struct([])), "column x is a struct without fields"),
        (pa.array([[{}]], pa.list_(pa.struct([]))), r"column x\.element is a struct without"),
        (
            pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "A"]),
            r"columns x\.a and x\.A have one name",
        ),
        (pa.array([[1]], pa.list_view(pa.int64())), "has a type for Arrow's list_view"),
        (RUNS.slice(0, 1), "has a type for Arrow's run_end_encoded"),
        (pa.array([[None]], pa.list_(pa.null())), r"column x\.element: .* Arrow's null"),
        (
            pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
            "has a type for Arrow's sparse_union",
        ),
        (pa.array([1], pa.time64("ns")), "has a type for Arrow's time64"),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), "has a type for Arrow's month_day_nano"),
        (pa.array([Decimal(1)], pa.decimal256(50, 3)), "has a type for Arrow's decimal256"),
        (pa.array([2**62], pa.timestamp("s")), "is no timestamp"),
    ],
)
def test_what_no_reader_knows_is_refused_in_each_format(
    written: Callable[..., dict[str, str]], column: pa.Array, said: str, format_: str
) -> None:
    with pytest.raises(PermanentJobError, match=said):
        written(pa.table({"x": column}), format_)


@pytest.mark.parametrize(
    "column",
    [
        PAIRS,
        pa.array([[({"a": 1}, 2)]], BY_STRUCT),
        pa.array([[2**31 - 1]], pa.list_(pa.date32())),
        NO_UTF8,
    ],
    ids=["a key twice", "a key of several values", "a year", "bytes"],
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_column(
    written: Callable[..., dict[str, str]], column: pa.Array
) -> None:
    table = pa.table({"n": [1], "x": column})
    assert list(written(table, "parquet", "n"))
    with pytest.raises(PermanentJobError, match="column x: JSON cannot hold one of its values"):
        written(table, "json")


@pytest.mark.parametrize(
    "times",
    [
        pa.array([2_932_897, None], pa.date32()),
        pa.array([-719_163], pa.date32()),
        pa.array([2_932_897 * 86_400], pa.timestamp("s")),
        pa.array([-719_163 * 86_400], pa.timestamp("s", "UTC")),
    ],
)
def test_a_year_without_a_text_is_refused(
    written: Callable[..., dict[str, str]], times: pa.Array
) -> None:
    with pytest.raises(PermanentJobError, match="column at has a year before 1 or after 9999"):
        written(pa.table({"at": times}), "csv")
    with pytest.raises(PermanentJobError, match="column at has a year before 1 or after 9999"):
        written(pa.table({"at": times, "n": [1] * len(times)}), "parquet", "at")


def test_each_value_has_one_folder_whatever_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN is not equal to itself."""
    monkeypatch.setattr("longhaul.runner.plain.files._MAX_BUFFERED", 0)
    one = pa.record_batch({"ratio": [float("nan"), 0.5], "n": [1, 2]})
    frame = frame_of(pa.Table.from_batches([one] * 3))
    assert frame.write(tmp_path / "out", WriteOptions("parquet", ("ratio",), {})) == 6
    folders = [file.parent.name for file in (tmp_path / "out").rglob("*.parquet")]
    assert sorted(folders) == ["ratio=0.5", "ratio=NaN"]


def test_what_is_no_frame_says_what_is() -> None:
    with pytest.raises(TypeError, match="a list is no data frame"):
        frame_of([1, 2])
