import re
from pathlib import Path

import pytest

from longhaul.core.errors import InvalidRequestError
from longhaul.operations.backfill import MAX_VALUES, Value, documents, over


def texts(text: str) -> list[str]:
    return [value.text for value in over(text, lambda file: Path(file).read_text()).values]


@pytest.mark.parametrize(
    ("typed", "first", "last", "count"),
    [
        ("day=2026-10-01..2026-10-31", "2026-10-01", "2026-10-31", 31),
        ("day=2028-02-28..2028-03-01", "2028-02-28", "2028-03-01", 3),
        ("hour=2026-10-01T22..2026-10-02T01", "2026-10-01T22", "2026-10-02T01", 4),
        ("week=2026-W52..2027-W01", "2026-W52", "2027-W01", 3),
        ("month=2026-11..2027-02", "2026-11", "2027-02", 4),
        ("part=a,b,a", "a", "b", 2),
    ],
)
def test_a_range_has_both_its_ends_and_the_step_of_its_form(
    typed: str, first: str, last: str, count: int
) -> None:
    values = texts(typed)
    assert (values[0], values[-1], len(values)) == (first, last, count)


def test_values_of_a_file_are_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "customers.txt"
    file.write_text("Müller & Co\n\nacme\nacme\n")
    assert texts(f"customer=@{file}") == ["Müller & Co", "acme"]


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("2026-10-01..2026-10-31", "write NAME=FROM..TO"),
        ("a day=1", "write NAME=FROM..TO"),
        ("day=2026-10-01..2026-11", "two times of one form"),
        ("day=2026-10-31..2026-10-01", "ends before it begins"),
        ("day=2026-02-28..2026-02-30", "is no time"),
        ("day=", "has no values"),
        ("hour=2020-01-01T00..2026-01-01T00", f"more than {MAX_VALUES:,} values"),
    ],
)
def test_what_is_no_range_is_refused(typed: str, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        texts(typed)


def test_parts_of_a_time_are_written_where_they_are_wanted() -> None:
    (value,) = over("day=2026-10-07", str).values
    assert (
        value.fill("day", "s3://b/{day:%Y/%m}/{day}/{{hour}}/")
        == "s3://b/2026/10/2026-10-07/{hour}/"
    )
    assert value.fill("day", "{day:%-d. %B}") == "7. October"
    with pytest.raises(InvalidRequestError, match="'acme' is no time"):
        Value("acme").fill("day", "{day:%Y}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("s3://b/{dya}/", "{dya}: the value is {day}; write {{dya}} for the text itself"),
        ("s3://b/{ day}/", "{ day}: the value is {day}"),
        ("s3://b/{day:%Q}/", "{day:%Q}: a part of a time has codes of strftime"),
        ("s3://b/{day:%Y%}/", "{day:%Y%}: a part of a time"),
        ("s3://b/{day:Y}/", "{day:Y}: a part of a time"),
        ("s3://b/{day:}/", "{day:}: a part of a time"),
    ],
)
def test_braces_that_are_not_the_value_are_refused(text: str, why: str) -> None:
    (value,) = over("day=2026-10-07", str).values
    with pytest.raises(InvalidRequestError, match=re.escape(why)):
        value.fill("day", text)


@pytest.mark.parametrize(
    "text", [r"\d{4}", "*.{csv,parquet}", "{}", '{"a": 1}', "{1,3}", "a } b {"]
)
def test_other_braces_stay(text: str) -> None:
    assert Value("x").fill("day", text) == text


def test_each_value_has_its_request_with_an_id_a_label_and_tags() -> None:
    template = {"inputs": {"logs": "s3://b/{day}/"}, "output": "s3://b/out/{day}/"}
    name, found = documents(template, over("day=2026-10-01..2026-10-02", str), None, "parse")
    assert found[0].fields == {
        "inputs": {"logs": "s3://b/2026-10-01/"},
        "output": "s3://b/out/2026-10-01/",
        "label": "2026-10-01",
        "tags": {"backfill": name, "day": "2026-10-01"},
        "job_id": f"{name}/2026-10-01",
    }
    longer = over("day=2026-10-01..2026-10-09", str)
    assert documents(template, longer, None, "parse")[0] == name
    assert documents({**template, "size": "large"}, longer, None, "parse")[0] != name


def test_a_value_that_no_id_can_hold_gets_a_digest() -> None:
    _, found = documents({"output": "{c}"}, over("c=a/../b,x y", str), "mine", "parse")
    assert [each.fields["tags"]["c"] for each in found] == ["a/../b", "x y"]
    assert all(len(each.fields["job_id"]) == len("mine/") + 20 for each in found)


def test_requests_that_would_all_be_the_same_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="would be the same"):
        documents({"output": "s3://b/out/"}, over("day=2026-10-01..2026-10-02", str), None, "parse")
