import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from longhaul.domain.quoting import cut, name_of, without_values

SECRET = "hunter2-correct-horse"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("flights_cleam", "'flight…'"),
        ("other-bucket-of-theirs", "'other-bu…'"),
        ("ab", "'a…'"),
        ("a", "'…'"),
        ("\n\n\n\n", r"'\n\n…'"),
    ],
)
def test_a_value_is_quoted_with_its_beginning(value: str, shown: str) -> None:
    assert cut(value) == shown


@given(st.text(alphabet="abcdef", min_size=1))
def test_a_value_is_never_quoted_whole(value: str) -> None:
    assert value not in cut(value)


def test_a_short_name_is_quoted_whole_and_a_long_one_cut() -> None:
    assert name_of("flights") == "flights"
    assert name_of("x" * 30) == "x" * 24 + "…"
    assert name_of("a\nERROR") == r"a\nERROR"


@pytest.mark.parametrize(
    "document",
    [
        {"password": SECRET},
        {"nested": [{"deep": [SECRET]}]},
        {"query": f"flights |> WHERE token = '{SECRET}'"},
        {"argv": ["--header", f'Authorization: "{SECRET}"']},
    ],
)
def test_a_value_that_an_error_repeats_is_cut(document: dict[str, JsonValue]) -> None:
    text = f"[CAST_INVALID_INPUT] The value '{SECRET}' of the type STRING cannot be cast"
    assert without_values(text, document) == text.replace(SECRET, "hunt…")


def test_a_value_within_another_is_cut_after_that() -> None:
    assert without_values("an-opened-door!", ["opened-door", "an-opened-door"]) == "an-o…!"


def test_ordinary_words_stay() -> None:
    text = "no such column: month"
    assert without_values(text, {"query": "SELECT month FROM flights", "mode": "fast"}) == text


def test_a_deeply_nested_document_is_read() -> None:
    document: list[object] = [SECRET]
    for _ in range(100_000):
        document = [document]
    assert without_values(SECRET, document) == "hunt…"  # type: ignore[arg-type]
