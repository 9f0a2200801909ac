from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.aws.stepfunctions.asl.errors import ExecutionError, UnsupportedError
from simulation.aws.stepfunctions.asl.paths import compile_path, compile_result_path

DATA = {"key": "a", "beat": {"next": "wait", "none": None}, "list": [{"x": 1}, [2]]}

json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc_", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


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
    assert compile_path(path, "here")(DATA) == found


@pytest.mark.parametrize(
    "path", ["$.other", "$.beat.other", "$.key.x", "$.list[2]", "$.list.x", "$[0]", "$.beat.none.x"]
)
def test_path_to_nothing_fails_the_execution(path: str) -> None:
    with pytest.raises(ExecutionError) as failure:
        compile_path(path, "State.Field")(DATA)
    assert failure.value.error == "States.Runtime"
    assert path in failure.value.cause
    assert "State.Field" in failure.value.cause


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "key",
            "$key",
            "$.",
            "$..key",
            "$.*",
            "$.list[*]",
            "$.list[-1]",
            "$.list[0:1]",
            "$.list[?(@.x)]",
        ),
        *("$['key']", "$.beat-x", "$$.Execution.Id", "$$", "$.1", "$.é", "$.a\n"),
        *("States.UUID()", "States.Format('', $.a)", None, 1),
    ],
)
def test_other_forms_of_paths_are_refused(path: object) -> None:
    with pytest.raises(UnsupportedError, match=r"State\.Field"):
        compile_path(path, "State.Field")


@given(
    steps=st.lists(names, min_size=1, max_size=4),
    result=json_values,
    data=st.dictionaries(names, st.none()),
)
def test_result_path_changes_its_field_alone(
    steps: list[str], result: Any, data: dict[str, Any]
) -> None:
    for step in steps:
        data.pop(step, None)
    before = dict(data)
    path = ".".join(("$", *steps))

    after = compile_result_path(path, "here")(data, result)

    assert compile_path(path, "here")(after) == result
    assert data == before
    assert {name: value for name, value in after.items() if name != steps[0]} == before


def test_fields_beside_a_result_stay() -> None:
    assert compile_result_path("$.beat.next", "here")(DATA, "end") == {
        **DATA,
        "beat": {"next": "end", "none": None},
    }
    assert DATA["beat"]["next"] == "wait"


def test_result_replaces_the_input_without_a_result_path() -> None:
    assert compile_result_path("$", "here")(DATA, 1) == 1


@pytest.mark.parametrize("path", [None, "", "beat", "$.list[0]", "$$.x", "$..x"])
def test_other_result_paths_are_refused(path: object) -> None:
    with pytest.raises(UnsupportedError, match="ResultPath"):
        compile_result_path(path, "State")


def test_result_path_into_an_input_without_fields_is_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        compile_result_path("$.beat", "here")(["no", "fields"], 1)
