"""Frames without Spark, as files that Spark and others read."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longhaul.core.errors import PermanentJobError
from longhaul.runner.io.frame import WriteOptions
from longhaul.runner.plain import files
from longhaul.runner.plain.frames import ArrowFrame


def write(folder: Path, data: object, *partition_by: str) -> int:
    return ArrowFrame(data).write(folder, WriteOptions("parquet", partition_by, {}))


def batches_of_many_days(count: int, days: int) -> pa.RecordBatchReader:
    """Each batch has a row of each day."""

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(count):
            yield pa.record_batch({"day": range(days), "n": [n] * days})

    return pa.RecordBatchReader.from_batches(
        pa.schema([("day", pa.int64()), ("n", pa.int64())]), batches()
    )


def test_small_batches_of_many_partitions_make_a_file_of_each(tmp_path: Path) -> None:
    """There are more partitions than files that may be open."""
    rows = write(tmp_path, batches_of_many_days(count=20, days=300), "day")

    written = list(tmp_path.rglob("*.parquet"))
    assert (rows, len(written)) == (6_000, 300)
    assert pa.parquet.read_table(tmp_path / "day=7")["n"].to_pylist() == list(range(20))


def test_what_waits_is_written_before_it_is_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MAX_BUFFERED", 10_000)
    monkeypatch.setattr(files, "_MAX_OPEN", 2)

    rows = write(tmp_path, batches_of_many_days(count=20, days=3), "day")

    tables = [pa.parquet.read_table(tmp_path / f"day={day}") for day in range(3)]
    assert rows == sum(map(len, tables))
    assert [sorted(table["n"].to_pylist()) for table in tables] == [list(range(20))] * 3


def test_an_index_of_pandas_without_a_name_is_no_column(tmp_path: Path) -> None:
    """A frame that has lost rows has one, and one that has not has none."""
    index = {"index_columns": ["__index_level_0__", "code"], "columns": []}
    table = pa.table({"n": [1, 3], "__index_level_0__": [0, 2], "code": ["a", "b"]})
    table = table.replace_schema_metadata({"pandas": json.dumps(index)})

    write(tmp_path, table)

    assert pa.parquet.read_table(tmp_path).to_pylist() == [
        {"n": 1, "code": "a"},
        {"n": 3, "code": "b"},
    ]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"a": pa.array([Decimal(1)], pa.decimal256(50, 0))}, r"decimal256\(50, 0\)"),
        ({"a": pa.array([Decimal(100)], pa.decimal128(5, -2))}, r"decimal128\(5, -2\)"),
        ({"a": pa.nulls(1)}, "null"),
        ({}, "no columns"),
    ],
)
def test_what_spark_could_not_read_is_refused(columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(PermanentJobError, match=problem):
        ArrowFrame(pa.table(columns))
