"""Jobs and labels as values of AWS's tags."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.request import tag_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("flights_clean", "flights_clean"),
        ("s3://code/jobs/a.py", "s3://code/jobs/a.py"),
        ("7. Oktober, früh (2)", "7. Oktober_ früh _2_"),
        ("a\tb", "a_b"),
        ("AWS: costs", "_WS: costs"),
        ("", ""),
        ("x" * 300, "x" * 256),
    ],
)
def test_what_aws_would_refuse_is_replaced(text: str, value: str) -> None:
    assert tag_value(text) == value


@given(st.text())
def test_every_text_becomes_a_value_that_aws_takes(text: str) -> None:
    value = tag_value(text)
    assert re.fullmatch(r"[\w +=.:/@-]{0,256}", value)
    assert not value.lower().startswith("aws:")
