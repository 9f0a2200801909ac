"""Frames of pandas and polars, which the image has not: a project's requirements bring them."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from longhaul.job import PermanentJobError
from longhaul.runner.frames import frame_of
from longhaul.testing import MakeJob

ROWS = {"n": [1, 2], "text": ["a", None]}
LIBRARIES = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
AT = datetime(2026, 1, 31, 11, tzinfo=UTC)


@pytest.fixture
def read_back(make_job: MakeJob, written: Any) -> Callable[[object], list[dict[str, Any]]]:
    """The rows of a frame, as the files have them that a job without Spark wrote."""

    def read(frame: object) -> list[dict[str, Any]]:
        job = make_job({}, plain=True)
        job.write(frame)
        rows: list[dict[str, Any]] = written(job)
        return rows

    return read


@LIBRARIES
def test_a_checkpoint_of_a_frame_is_a_table_of_arrow(
    make_job: MakeJob, frame: Callable[..., Any]
) -> None:
    kept = make_job({}, plain=True).checkpoint("rows", frame(ROWS))
    assert isinstance(kept, pa.Table)
    assert frame is not pd.DataFrame or kept.to_pandas().equals(frame(ROWS))
    assert kept.to_pydict() == ROWS


@pytest.mark.parametrize(
    ("frame", "rows"),
    [
        (pd.DataFrame({"n": [1, 2, 3]})[lambda each: each.n > 1], [{"n": 2}, {"n": 3}]),
        (pd.DataFrame({"n": [1]}, index=["a"]), [{"n": 1}]),
        (pd.DataFrame({"n": [1]}, index=pd.Index(["a"], name="key")), [{"n": 1, "key": "a"}]),
        (
            pd.DataFrame(
                {"n": [1]}, index=pd.MultiIndex.from_tuples([("a", 2)], names=["x", None])
            ),
            [{"n": 1, "x": "a"}],
        ),
    ],
    ids=["filtered", "without a name", "with a name", "half of it with a name"],
)
def test_an_index_of_pandas_with_a_name_is_a_column(
    read_back: Any, frame: pd.DataFrame, rows: list[dict[str, Any]]
) -> None:
    assert read_back(frame) == rows


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (pd.RangeIndex(1, name="id"), "the index id of the frame would be lost, because it only"),
        (pd.Index(["a"], name="n"), "the index n .* because a column has its name"),
    ],
)
def test_an_index_of_pandas_that_would_be_lost_is_refused(
    read_back: Any, index: pd.Index, said: str
) -> None:
    with pytest.raises(PermanentJobError, match=said):
        read_back(pd.DataFrame({"n": [1]}, index=index))


def test_a_table_that_knows_an_index_of_pandas_is_written(read_back: Any) -> None:
    frame = pd.DataFrame({"n": [1]}, index=pd.RangeIndex(1, name="id"))
    assert read_back(pa.Table.from_pandas(frame)) == [{"n": 1}]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pd.array([1, None], "Int64"), [1, None]),
        (pd.array([True, None], "boolean"), [True, None]),
        (pd.array([1, None], pd.ArrowDtype(pa.uint8())), [1, None]),
        (np.array([1.5, np.nan]), [1.5, None]),
        (pd.Categorical(["a", None]), ["a", None]),
        (pd.Categorical([2, 1]), [2, 1]),
        (pd.to_datetime([AT, None]).tz_convert("Europe/Oslo"), [AT, None]),
        (np.array(["2026-01-31T11"], "datetime64[ns]"), [AT.replace(tzinfo=None)]),
        ([Decimal("1.10"), None], [Decimal("1.10"), None]),
        ([date(2026, 1, 31), None], [date(2026, 1, 31), None]),
        ([[1, 2], None, []], [[1, 2], None, []]),
        ([{"a": 1, "b": "x"}, None], [{"a": 1, "b": "x"}, None]),
    ],
)
def test_values_of_pandas_are_kept(read_back: Any, column: Any, values: list[Any]) -> None:
    assert [row["x"] for row in read_back(pd.DataFrame({"x": column}))] == values


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pl.Series(["a", None, "b"], dtype=pl.Categorical), ["a", None, "b"]),
        (pl.Series(["a", None], dtype=pl.Enum(["b", "a"])), ["a", None]),
        (pl.Series([["a", "b"], None], dtype=pl.List(pl.Categorical)), [["a", "b"], None]),
        (pl.Series([{"c": "a"}], dtype=pl.Struct({"c": pl.Categorical})), [{"c": "a"}]),
        (pl.Series([AT]).dt.convert_time_zone("Europe/Oslo"), [AT]),
        (pl.Series([Decimal("1.10"), None]), [Decimal("1.10"), None]),
        (pl.Series([2**64 - 1], dtype=pl.UInt64), [2**64 - 1]),
        (pl.Series([[1, 2]], dtype=pl.Array(pl.Int8, 2)), [[1, 2]]),
        (pl.Series([b"\xff"]), [b"\xff"]),
        (pl.concat([pl.Series([1]), pl.Series([2])], rechunk=False), [1, 2]),
    ],
)
def test_values_of_polars_are_kept(read_back: Any, column: pl.Series, values: list[Any]) -> None:
    assert [row["x"] for row in read_back(pl.DataFrame({"x": column}))] == values


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": pd.Series([], dtype="int64"), "text": pd.Series([], dtype="string")}),
        pl.DataFrame(schema={"n": pl.Int64, "text": pl.String}),
    ],
    ids=["pandas", "polars"],
)
def test_a_frame_without_rows_keeps_its_columns(read_back: Any, frame: object) -> None:
    assert read_back(frame) == []
    assert [each in frame_of(frame).columns for each in ('"long"', '"string"')] == [True, True]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"x": [1, "a"]}), "no table for Arrow: .* column x with type object"),
        (pd.DataFrame({"x": [1j]}), "no table for Arrow: .* column x with type complex128"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "Duplicate column names found"),
        (pd.DataFrame({"x": pd.arrays.SparseArray([0])}), r"Sparse pandas data \(column x\)"),
        (pd.DataFrame({"x": pd.period_range("2026-01", periods=1, freq="M")}), "for periods"),
        (pd.DataFrame({"x": [None]}), "column x: neither Spark nor a table"),
        (pd.DataFrame({"x": [pd.Timedelta("1s")]}), "column x: neither Spark nor a table"),
        (pd.DataFrame({"x": pd.to_datetime(["2026-01-31T00:00:00.000000001"])}), "microseconds"),
        (pd.DataFrame(), "the frame has no columns"),
        (pl.Series([1]), "the Series is no table for Arrow"),
        (pl.DataFrame(), "the frame has no columns"),
        (pl.DataFrame({"x": [None]}), "column x: neither Spark nor a table"),
        (pl.DataFrame({"x": [time(1)]}), "column x: neither Spark nor a table"),
        (pl.DataFrame({"x": [timedelta(1)]}), "column x: neither Spark nor a table"),
        (pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), "no table for Arrow"),
        (pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}), "of Python's objects"),
        (pl.DataFrame({"x": [{}]}), "column x is a struct without fields"),
    ],
)
def test_what_a_frame_cannot_keep_is_refused(read_back: Any, frame: object, said: str) -> None:
    with pytest.raises(PermanentJobError, match=said):
        read_back(frame)


def test_a_lazy_frame_is_to_be_collected_first(read_back: Any) -> None:
    with pytest.raises(TypeError, match=r"a LazyFrame is no data frame: .* is collected first"):
        read_back(pl.LazyFrame(ROWS))
