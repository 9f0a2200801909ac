"""Paths, and the payloads that are filled from them."""

from typing import Any

import pytest

from simulation.aws.stepfunctions.asl.limits import ExecutionError
from simulation.aws.stepfunctions.asl.machine import (
    compile_path,
    compile_result_path,
    compile_template,
)

DATA = {"key": "a", "beat": {"next": "wait", "none": None}, "list": [{"x": 1}, [2]], "attempt": 3}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", DATA),
        ("$.key", "a"),
        ("$.beat.next", "wait"),
        ("$.beat.none", None),
        ("$.list[0]", {"x": 1}),
        ("$.list[0].x", 1),
        ("$.list[1][0]", 2),
    ],
)
def test_path_reads_its_value(path: str, found: Any) -> None:
    assert compile_path(path)(DATA) == found


@pytest.mark.parametrize(
    "path", ["$.other", "$.beat.other", "$.key.x", "$.list[2]", "$.list.x", "$[0]", "$.beat.none.x"]
)
def test_path_to_nothing_fails_the_execution(path: str) -> None:
    with pytest.raises(ExecutionError) as failure:
        compile_path(path)(DATA)
    assert failure.value.error == "States.Runtime"
    assert path in failure.value.cause


@pytest.mark.parametrize(
    "path",
    [
        *("", "key", "$key", "$.", "$..key", "$.*", "$.list[*]", "$.list[-1]", "$.list[0:1]"),
        *("$.list[?(@.x)]", "$['key']", "$.beat-x", "$$.Execution.Id", "$$", "$.1", "$.é", "$.a\n"),
        *("States.UUID()", "States.Format('', $.a)", None, 1),
    ],
)
def test_other_forms_of_paths_are_refused(path: object) -> None:
    with pytest.raises(ValueError, match="no path of the forms"):
        compile_path(path)


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("$", "end"),
        ("$.new", {**DATA, "new": "end"}),
        ("$.new.deep", {**DATA, "new": {"deep": "end"}}),
        ("$.beat.next", {**DATA, "beat": {"next": "end", "none": None}}),
    ],
)
def test_result_path_changes_its_field_alone(path: str, after: Any) -> None:
    assert compile_result_path(path)(DATA, "end") == after
    assert DATA["beat"] == {"next": "wait", "none": None}


@pytest.mark.parametrize("path", [None, "", "beat", "$.list[0]", "$$.x", "$..x"])
def test_other_result_paths_are_refused(path: object) -> None:
    with pytest.raises(ValueError, match="no reference path"):
        compile_result_path(path)


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ({"Fixed": [None, 1, {"a": "$.key"}]}, {"Fixed": [None, 1, {"a": "$.key"}]}),
        ({"All.$": "$", "List": [{"Value.$": "$.key"}]}, {"All": DATA, "List": [{"Value": "a"}]}),
        ({"List": [{"Token.$": "$$.Execution.Name"}]}, {"List": [{"Token": "main-x.1"}]}),
        ({"x.$": "States.Format('Longhaul-{}', $.key)"}, {"x": "Longhaul-a"}),
        ({"x.$": "States.Format('{}/{}',$.key, $.attempt)"}, {"x": "a/3"}),
    ],
)
def test_template_is_filled_at_any_depth(template: Any, made: Any) -> None:
    assert compile_template(template)(DATA, "main-x.1") == made


@pytest.mark.parametrize(
    "call",
    [
        "States.UUID()",
        "States.Array($.a)",
        "States.Format('no placeholder', $.a)",
        "States.Format('{}{}', $.a)",
        "States.Format('{}', $.a, $.b)",
        "States.Format('{}')",
        "States.Format($.template, $.a)",
        "States.Format('{}', States.UUID())",
        "States.Format('{}', 'literal')",
        "States.Format('{x}', $.a)",
        "States.Format('it\\'s {}', $.a)",
        "States.Format('{}', $..a)",
        "$$.Execution.Id",
        1,
        None,
    ],
)
def test_other_intrinsic_functions_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"is no|has not"):
        compile_template({"x.$": call})


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}])
def test_format_of_other_values_is_not_implemented(value: object) -> None:
    with pytest.raises(NotImplementedError):
        compile_template({"x.$": "States.Format('{}', $.a)"})({"a": value}, "name")
