import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.durations import format_duration, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("6h", 21_600),
        ("2d", 172_800),
        ("1h30m", 5_400),
        ("1d1h1m1s", 90_061),
    ],
)
def test_duration_text_is_parsed_to_seconds(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "90", "s", "1.5h", "-5m", "5 m", "30m1h", "1h\n", "\u0661h", "9" * 20 + "s"]
)
def test_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 90s"):
        parse_duration_s(text)


@given(st.integers(min_value=1, max_value=604_800))
def test_formatted_duration_parses_back_to_the_same_seconds(seconds: int) -> None:
    assert parse_duration_s(format_duration(seconds)) == seconds


def test_part_of_a_second_is_no_second() -> None:
    assert format_duration(0.9) == "0s"
