"""What a job returns, counts and measures, and what is kept of it."""

import json
import math
from random import Random
from typing import Any

import pytest

from longhaul.core.history import latest
from longhaul.core.lease import CommittedOutput, State
from longhaul.core.results import (
    MAX_DATASETS,
    MAX_METRICS,
    MAX_RESULT_BYTES,
    NOTHING,
    OTHERS,
    Results,
    kept_value,
    metric_problem,
    read_results,
    results,
)
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import reopened
from longhaul.core.store import item as items
from longhaul.operations.view import result_texts, results_record
from tests.builders import NOW, running

FOUND = Results({"days": [1, 2]}, None, {".": 1_200, "daily": 31}, {"bad_rows": 12, "share": 0.25})
OUTPUT = CommittedOutput(1, 1, 1, prefix="s3://b/out/", results=FOUND)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (7, 7),
        ({"days": (1, 2)}, {"days": [1, 2]}),
        ({1: "a"}, {"1": "a"}),
        ("\ud800", "\ud800"),
        ("x" * (MAX_RESULT_BYTES - 2), "x" * (MAX_RESULT_BYTES - 2)),
        ([], []),
    ],
)
def test_a_result_is_kept_as_json_has_it(value: object, kept: object) -> None:
    assert kept_value(value) == (kept, None)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "object is no JSON, or holds what is none"),
        ({"at": NOW}, "dict is no JSON, or holds what is none"),
        (float("nan"), "float is no JSON, or holds what is none"),
        ("x" * MAX_RESULT_BYTES, "it has 4,098 bytes of JSON; at most 4,096"),
        ("ä" * 1_000, "it has 6,002 bytes of JSON; at most 4,096"),
        (nested(500), "it has more than 20 levels"),
        (nested(100_000), "list is no JSON, or holds what is none"),
    ],
)
def test_what_cannot_be_kept_is_left_out_with_its_reason(value: object, why: str) -> None:
    assert kept_value(value) == (None, why)
    found = results(value, [(".", 3)], {"bad_rows": 1})
    assert (found.problem, found.rows, found.metrics) == (why, {".": 3}, {"bad_rows": 1})
    assert ("result", f"not kept: {why}") in result_texts(found)


def test_rows_of_parts_are_added_and_an_unknown_part_leaves_no_number() -> None:
    found = results(None, [(".", 2), ("a", 1), (".", 3), ("b", 4), ("b", None)], {})

    assert found.rows == {".": 5, "a": 1}


def test_many_datasets_keep_an_exact_sum() -> None:
    found = results(None, [(f"d{n}", n) for n in range(MAX_DATASETS + 10)], {})

    assert len(found.rows) == MAX_DATASETS + 1
    assert found.rows[OTHERS] == sum(range(MAX_DATASETS, MAX_DATASETS + 10))
    assert sum(found.rows.values()) == sum(range(MAX_DATASETS + 10))


def test_a_job_without_results_has_none() -> None:
    assert not results(None, [], {})
    assert results(0, [], {})
    assert results(None, [(".", 0)], {})


def test_results_are_read_back_from_a_row_and_shown_with_a_success_alone() -> None:
    committed = running(output=OUTPUT)
    row = items.from_item(items.to_item(committed))

    assert row.attempt.output == OUTPUT
    assert row.results is None  # it may still turn out void
    done = running(state=State.SUCCEEDED, output=OUTPUT, settled_attempt=1, settled_at=NOW)
    assert done.results == FOUND
    kept = items.record_from(items.record_item(latest(done)))
    assert kept.results == FOUND


def test_a_void_commit_leaves_no_results() -> None:
    done = running(state=State.SUCCEEDED, output=OUTPUT, settled_attempt=1, settled_at=NOW)

    again = reopened(done, LeaseSettings(), NOW, Random(1))

    assert again.attempt.output is None
    assert latest(again).results is None


def test_rows_are_told_apart_by_their_output() -> None:
    rows = {".": 3, "bad": 1, "outputs.a": 5, "outputs.a/x": 2, "outputs.ab": 7, "(others)": 9}
    found = Results(rows=rows)

    assert found.rows_of() == {".": 3, "bad": 1}
    assert found.rows_of("a") == {".": 5, "x": 2}
    assert found.rows_of("ab") == {".": 7}
    assert read_results({"rows": rows}).rows == rows


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"value": "x" * 300_000},
        {"value": nested(30), "rows": 7, "metrics": [], "problem": 7},
        {"rows": {"a" * 200: 1, "b": -1, "c": 2**70, "d": True, "e": "1"}},
        {"metrics": {"a": float("inf"), "b c": 1, "d": True, "e": "1"}},
        {"unknown": 1},
    ],
)
def test_forged_results_are_read_as_none(forged: dict[str, Any]) -> None:
    found = read_results(forged)

    assert (found.value, found.rows, found.metrics) == (None, {}, {})


@pytest.mark.parametrize("value", [10**400, -(10**400), math.inf, math.nan, True, "1"])
def test_a_metric_that_is_no_number_of_a_chart_is_left_out(value: object) -> None:
    assert read_results({"metrics": {"a": value, "b": 1e308, "c": 7}}).metrics == {
        "b": 1e308,
        "c": 7,
    }


def test_forged_results_are_few() -> None:
    many = {f"m{n}": 1 for n in range(1_000)}
    found = read_results({"rows": many, "metrics": many, "problem": "x" * 9_000})

    assert (len(found.rows), len(found.metrics)) == (MAX_DATASETS + 1, MAX_METRICS)
    assert len(found.problem or "") == 300


@pytest.mark.parametrize(("name", "can"), [("bad_rows", True), ("a.b-c", True), ("", False)])
def test_a_metric_has_a_plain_name(name: str, *, can: bool) -> None:
    assert (metric_problem(name) is None) is can


def test_results_on_a_line() -> None:
    assert result_texts(FOUND) == [
        ("result", '{"days":[1,2]}'),
        ("rows", "1,200, daily 31"),
        ("metrics", "bad_rows 12, share 0.25"),
    ]
    assert result_texts(NOTHING) == []
    assert json.loads(json.dumps(results_record(FOUND))) == {
        "result": {"days": [1, 2]},
        "result_problem": None,
        "rows": {".": 1_200, "daily": 31},
        "metrics": {"bad_rows": 12, "share": 0.25},
    }
