from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.aws.stepfunctions.asl.errors import UnsupportedError
from simulation.aws.stepfunctions.asl.templates import compile_template

constants: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcD", max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(template=constants)
def test_template_without_paths_is_its_own_payload(template: Any) -> None:
    assert compile_template(template, "here")({"any": "input"}, "name") == template


def test_paths_are_read_at_any_depth_and_lose_their_suffix() -> None:
    template = {"Fixed": 1, "All.$": "$", "List": [{"Name": "KEY", "Value.$": "$.key"}]}
    data = {"key": "main#x"}

    made = compile_template(template, "here")(data, "name")

    assert made == {"Fixed": 1, "All": data, "List": [{"Name": "KEY", "Value": "main#x"}]}


def test_name_of_the_execution_is_read_at_any_depth() -> None:
    template = {"Token.$": "$$.Execution.Name", "List": [{"Value.$": "$$.Execution.Name"}]}

    made = compile_template(template, "here")({}, "main-x.1")

    assert made == {"Token": "main-x.1", "List": [{"Value": "main-x.1"}]}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("States.Format('Longhaul-{}', $.size)", "Longhaul-small"),
        ("States.Format('{}/{}', $.size, $.attempt)", "small/3"),
        ("States.Format('{}',$.size)", "small"),
    ],
)
def test_format_fills_its_placeholders_in_order(call: str, text: str) -> None:
    assert compile_template({"x.$": call}, "here")({"size": "small", "attempt": 3}, "x") == {
        "x": text
    }


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
        "$.a or so",
        "$$.Execution.Id",
        1,
        None,
    ],
)
def test_other_intrinsic_functions_are_refused(call: object) -> None:
    with pytest.raises(UnsupportedError, match=r"State\.Parameters"):
        compile_template({"x.$": call}, "State.Parameters")


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}])
def test_format_of_other_values_is_not_implemented(value: object) -> None:
    with pytest.raises(NotImplementedError):
        compile_template({"x.$": "States.Format('{}', $.a)"}, "here")({"a": value}, "name")
