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


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The text of each file, by its folder."""

    def write(data: object, format_: str, *partition_by: str, **options: str) -> dict[str, str]:
        folder = tmp_path / "out"
        frame_of(data).write(folder, WriteOptions(format_, partition_by, options))  # type: ignore[arg-type]
        files = [each for each in folder.rglob("*") if each.is_file()]
        return {each.parent.relative_to(folder).as_posix(): each.read_text() for each in files}

    return write


def test_csv_has_sparks_values(written: Callable[..., dict[str, str]]) -> None:
    assert written(ROWS, "csv")["."] == (
        '"text","ratio","at","price"\n'
        '"a,b","1.0","2026-01-31T12:00:00.000007Z",1.10\n'
        '"","NaN",,\n'
        ',"2.5","2026-01-31T12:00:00.000007Z",2.00\n'
    )


def test_a_null_alone_in_a_line_of_csv_is_no_blank_line(
    written: Callable[..., dict[str, str]],
) -> None:
    assert written(pa.table({"n": [1, None]}), "csv")["."] == '"n"\n"1"\n""\n'


def test_json_has_its_nulls_and_all_digits(written: Callable[..., dict[str, str]]) -> None:
    first, second, _ = written(ROWS, "json")["."].splitlines()
    assert first == ('{"text":"a,b","ratio":1.0,"at":"2026-01-31T12:00:00.000007Z","price":1.10}')
    assert second == '{"text":"","ratio":"NaN","at":null,"price":null}'


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


def test_a_relation_of_duckdb_is_a_frame(written: Callable[..., dict[str, str]]) -> None:
    relation = duckdb.sql("SELECT 1 AS n, 'x' AS text")
    assert written(relation, "json")["."] == '{"n":1,"text":"x"}\n'


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
    ],
)
def test_what_cannot_be_written_says_why(
    written: Callable[..., dict[str, str]], data: pa.Table, how: dict[str, Any], said: str
) -> None:
    with pytest.raises(PermanentJobError, match=said):
        written(data, **{"format_": "parquet", **how})


def test_what_is_no_frame_says_what_is() -> None:
    with pytest.raises(TypeError, match="a list is no data frame"):
        frame_of([1, 2])
