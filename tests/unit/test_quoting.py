import json
import re
import time
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from longhaul.domain.quoting import cut, name_of, with_values, without_secrets, without_values

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


@pytest.mark.parametrize(
    "query",
    [
        "-- don't touch\nSELECT '{}'",
        "/* don't /* nor this */ can't */ SELECT '{}'",
        "SELECT `don't`, '{}'",
        "SELECT 'it\\'s', '{}'",
        "SELECT 'it''s', \"don't\", '{}'",
        "SELECT 'unclosed', '{}",
        "SELECT $$'$$, '{}'",
        "SELECT $a${}$a$",
        "--header '{}'",
    ],
)
def test_a_literal_is_found_wherever_the_query_has_other_quotes(query: str) -> None:
    assert without_values(f"bad {SECRET}", {"query": query.format(SECRET)}) == "bad hunt…"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it\\'s mine'", "it's mine"),
        ("'it''s mine'", "it's mine"),
        (r"'p\u0061ssw\157rd\nof me'", "password\nof me"),
        (r"'100\% of me'", r"100\% of me"),
        ("'pass' 'word' 'of me'", "passwordof me"),
    ],
)
def test_a_literal_is_found_as_spark_reads_it(literal: str, value: str) -> None:
    assert without_values(f"bad {value}!", {"q": f"SELECT {literal} AS x"}) == f"bad {value[:4]}…!"


@pytest.mark.parametrize(
    "value", ["line one\nline two", "pässwört-geheim", 'it\'s "mine"', "a\\b\\c\\d\\e"]
)
def test_a_value_is_found_as_an_error_escapes_it(value: str) -> None:
    for written in (repr(value), repr(value.encode()), json.dumps(value), repr([value])):
        shown = without_values(f"bad {written}.", {"key": value})
        inner = written.strip("b'\"[]")
        assert inner[8:] not in shown
        assert shown.startswith("bad ")
        assert shown.endswith(".")


def _lower(url: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), url)


@pytest.mark.parametrize(
    "value",
    ["p@ss w/ord of+me", "pässwört-geheim!", "<pass&word>-of me", 'it\'s "mine"', "a\\b\nc of me"],
)
def test_a_value_is_found_as_a_url_or_a_page_has_it(value: str) -> None:
    for written in (
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        quote(value, safe="!#$%&'()*+,/:;=?@[]~"),
        _lower(quote(value, safe="")),
        escape(value),
        escape(value, quote=False),
    ):
        assert without_values(f"bad {written}!", {"key": value}) == f"bad {written[:4]}…!"


@pytest.mark.parametrize("before", ["", "u", "me", "me:", "user:"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode, encodebytes])
def test_a_value_is_found_in_base64_whatever_comes_before(
    before: str, encode: Callable[[bytes], bytes]
) -> None:
    # With characters that base64 for URLs writes in another way.
    value = "hünter??>>two-is~it"
    written = encode(f"{before}{value}".encode()).decode()

    shown = without_values(f"Invalid header value b'Basic {written!r}'", {"key": value})

    assert max(map(len, re.findall(r"[A-Za-z0-9+/=_-]+", shown.partition("Basic")[2]))) < 16


@pytest.mark.parametrize("value", ['it\'s "mine" now', "pässwört-geheim", "a\\b\\c\\d\\e of me"])
def test_a_value_is_found_where_an_error_quotes_another_text(value: str) -> None:
    in_java = json.dumps(value).replace("e4", "E4").replace("f6", "F6")
    for inner in (json.dumps(value), repr(value), json.dumps(value, ensure_ascii=False), in_java):
        for written in (inner, json.dumps(inner), repr(inner)):
            assert "ine" not in (shown := without_values(f"bad {written}.", {"key": value}))
            assert "geheim" not in shown
            assert "of me" not in shown


def test_a_line_of_a_value_is_cut() -> None:
    document: dict[str, JsonValue] = {"file": "[db]\n  user: me and you\n  hunter two is it\nname"}

    shown = without_values("parsing errors: [line  3]: '  hunter two is it\\n'", document)

    assert shown == "parsing errors: [line  3]: '  hunt…\\n'"


def test_a_name_alone_in_a_line_of_a_query_is_no_secret() -> None:
    query = "SELECT\n  carrier_name,\n  departure_delay\nFROM flights_of_2013"
    text = "no such column: departure_delay; carrier_name, flights_of_2013"
    assert without_values(text, {"query": query}) == text


def test_keys_are_cut_but_not_the_names_of_parameters() -> None:
    document: dict[str, JsonValue] = {"password_of": {SECRET: 1}}
    assert without_values(f"password_of: {SECRET}", document) == "password_of: hunt…"


TOKEN = "f00dfeedc0ffee5ecret9f8e7d6c5b4a"


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (f"https://host/k.csv?X-Amz-Date=1&X-Amz-Signature={TOKEN}", TOKEN),
        (f"https://host/cb#access_token={SECRET}", SECRET),
        ("https://host/services/hook-of-ours", "/services/hook-of-ours"),
        (f"Authorization: Bearer {SECRET}", SECRET),
        (f"authorization: basic {SECRET}", SECRET),
        (f"X-Api-Key: {SECRET}", SECRET),
        (f"fetch --api-token {SECRET} --all", SECRET),
        (f"run it with {TOKEN} please", TOKEN),
        ("run it with eyJhbGciOiJ_UzI1-NiJ9.c2_lnbmVk please", "eyJhbGciOiJ_UzI1-NiJ9.c2_lnbmVk"),
        (f"postgresql://user:{SECRET}@host/db", SECRET),
        (f"postgresql://user:{SECRET}@host/db?mail=a@b.example", SECRET),
        ("postgresql://user:half@half-secret@host/db", "half@half-secret"),
        ("postgresql://user:p%40ssword-of%2Fme@host/db", "p@ssword-of/me"),
        ("https://host/?token=p@ssword-of/me", "p%40ssword-of%2Fme"),
        (f"host=db user=me password={SECRET}", SECRET),
        (f"jdbc:sqlserver://db;user=me;password={SECRET};x=1", SECRET),
        ("pay with 4929 1234 1234 1234 now", "4929 1234 1234 1234"),
        ("pay with 4929-1234-1234-1234 now", "4929123412341234"),
        ("SELECT * FROM cards WHERE number = 4929123412341234", "4929123412341234"),
        (4929123412341234, "4929123412341234"),
        ([{"card": -4929123412341234}], "4929123412341234"),
        (4929123412341234.0, "4929123412341234"),
    ],
)
def test_a_secret_that_is_a_part_of_a_value_is_cut(value: JsonValue, part: str) -> None:
    assert without_values(f"refused: {part}!", {"of": value}) == f"refused: {part[:4]}…!"


def test_names_in_a_query_and_numbers_that_python_does_not_write_are_no_secrets() -> None:
    text = "no such column: departure_delay_2026; did you mean departure_delay?"
    query = "SELECT departure_delay_2026 FROM flights WHERE carrier_name=departure_city"
    assert without_values(text, {"query": query, "n": 10**5000}) == text
    assert without_values("departure_city?", {"query": query}) == "departure_city?"


def test_what_others_have_left_of_a_value_is_cut() -> None:
    assert without_values(f"bad {SECRET[:16]}...", [SECRET]) == "bad hunt…..."
    assert without_values(f"bad {SECRET[:15]}...", [SECRET]) == f"bad {SECRET[:15]}..."


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("a" * 500_000, ["a" * 250_000 + "b"]),
        ("abcdefgh" * 50_000, ["abcdefgh" * 2 + f"{n}" for n in range(25_000)]),
        (
            "x" * 250_000,
            [
                "'" * 150_000,
                "\\'" * 50_000,
                "'a' " * 25_000,
                "/*" * 50_000,
                "--\n" * 50_000,
                "$a$" * 50_000,
                "://a:" * 50_000,
                "://a:" + "b@" * 100_000,
                "?a=" * 50_000,
                "key: " * 50_000,
                "a" * 150_000,
                "a1" * 75_000,
                "1 " * 100_000,
                "bearer " * 25_000,
                "--token" * 25_000,
            ],
        ),
        ("x" * 500_000, [f"value-{n}" for n in range(25_000)]),
    ],
)
def test_a_huge_text_and_a_huge_document_take_seconds(text: str, document: list[JsonValue]) -> None:
    began = time.thread_time()
    without_values(text, document)
    assert time.thread_time() - began < 5  # of twice what a message may hold


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


@pytest.mark.parametrize(
    ("text", "document", "shown"),
    [
        ("no 2013… here", {"day": "2013-01-05"}, "no 2013-01-05 here"),
        ("no 2013… here", {"days": ["2013-01-05", "2013-01-06"]}, "no 2013… here"),  # which?
        ("no 2013… here", {"n": 20130105}, "no 20130105 here"),
        ("unknown 'sq…'", {"job": "sqll"}, "unknown 'sqll'"),
        ("bucket 'my-bucke…' is", {"a": "my-bucket-of-mine"}, "bucket 'my-bucket-of-mine' is"),
        (
            "bucket 'my-bucke…' is",
            {"a": "s3://my-bucket-of-mine/b/"},
            "bucket 'my-bucket-of-mine' is",
        ),
        ("bucket '…' is", {"output": "s3://x/y/", "n": 1}, "bucket '…' is"),  # which?
        ("shortened at the end …", {"day": "2013-01-05"}, "shortened at the end …"),
        ("nothing", None, "nothing"),
    ],
)
def test_the_sender_is_shown_values_whole_where_only_one_can_be_meant(
    text: str, document: JsonValue, shown: str
) -> None:
    assert with_values(text, document) == shown


@given(st.text(alphabet="abcdef", min_size=8, max_size=40))
def test_what_was_cut_of_one_value_is_whole_again(value: str) -> None:
    document, text = {"name": value}, f"no {value} here"

    assert with_values(without_values(text, {**document}), {**document}) == text


DAYS: list[JsonValue] = [f"2013-01-{day:02}" for day in range(1, 32)]


@pytest.mark.parametrize(
    ("text", "document", "shown"),
    [
        ("no 2013-01-05", {"days": DAYS}, "no 2013…(5 of 31)"),
        ("no 2013-01-05", {"a": {"on": "2013-01-05"}, "b": "2013-01-06"}, "no 2013…(1 of 2)"),
        ("no 2013-01-05", {"days": ["2013-01-05", "2013-01-05", "2014-01-01"]}, "no 2013…"),
        (
            "no 2013-01-05",
            {"query": "day IN ('2013-01-04', '2013-01-05')"},
            "no 2013…(2 of 2)",
        ),
        ("no 20130105", {"days": [20130104, 20130105]}, "no 2013…(2 of 2)"),
        (
            f"asked for {DAYS}",
            {"days": DAYS},
            "asked for ['2013…(1 of 31)', '29 more', '2013…(31 of 31)']",
        ),
        (
            f"found {DAYS[:6] + DAYS[7:9]}",
            {"days": DAYS},
            (
                "found ['2013…(1 of 31)', '4 more', '2013…(6 of 31)', '2013…(8 of 31)',"
                " '2013…(9 of 31)']"
            ),
        ),
    ],
)
def test_values_that_begin_alike_are_numbered(text: str, document: JsonValue, shown: str) -> None:
    assert without_values(text, document) == shown


def test_a_part_of_several_values_is_not_numbered() -> None:
    alike: list[JsonValue] = ["bucket-of-our-team/a", "bucket-of-our-team/b"]

    assert without_values("no bucket-of-our-team", alike) == "no buck…"


@pytest.mark.parametrize(
    "text",
    [
        "no rows on 2013-01-05 and 2013-01-31",
        f"asked for {DAYS}, found {DAYS[:16] + DAYS[17:]}",
        f"found {', '.join(map(str, DAYS[2:]))} alone",
        f"{DAYS[3]}{DAYS[4]}{DAYS[5]}{DAYS[6]}",
    ],
)
def test_the_sender_reads_each_value_of_a_list_whole(text: str) -> None:
    document: dict[str, JsonValue] = {"city": "Oslo-West", "days": DAYS}
    cut_text = without_values(text, document)

    assert len(cut_text) < 180
    assert not [day for day in DAYS if str(day) in cut_text]
    assert with_values(cut_text, document) == text


@pytest.mark.parametrize(
    "text",
    [
        "no 2013…(5 of 30)",
        "no 2013…(0 of 31)",
        "no 2013…(32 of 31)",
        "no 2013…(1 of 31), 28 more, 2013…(31 of 31)",
        "no 2013…(31 of 31), 29 more, 2013…(1 of 31)",
    ],
)
def test_a_number_of_another_document_stays_as_it_is(text: str) -> None:
    assert with_values(text, {"days": DAYS}) == text


_ALIKE = st.lists(st.text(alphabet="ab'\\é…1( ", max_size=6), min_size=1, unique=True)


@given(_ALIKE, st.data())
def test_any_list_of_values_is_whole_again(ends: list[str], data: st.DataObject) -> None:
    values = [f"begin-{each}-end" for each in ends]
    shown = data.draw(st.lists(st.sampled_from(values), min_size=1))
    text = f"bad: {' | '.join(shown)}."

    assert with_values(without_values(text, {"of": [*values]}), {"of": [*values]}) == text


def test_a_document_is_shown_without_what_looks_like_a_secret() -> None:
    shown = {
        "query": "SELECT 1",
        "lookup": "s3://data/2026/10/a1b2c3d4e5f6a7b8.csv",
        "local": "file:///home/ops/weblogs7/a1b2c3d4e5f6a7b8.csv",
        "days": ["2026-10-07", 3, None, True],
        "ratio": 0.5,
        "table": "table://web/hits@1234567890123456789",
    }
    assert without_secrets(shown) == shown
    assert without_secrets(
        {
            "api_token": "hunter2-hunter2",
            "nested": {"password": "short", "n": 1},
            "auth": {"user": "ops", "pin": 1234},
            "url": "https://me:sesame-street@example.org/x",
            "header": "Authorization: Bearer abcdefgh12345678",
            "card": 4111111111111111,
        }
    ) == {
        "api_token": "hunt…",
        "nested": {"password": "…", "n": 1},
        "auth": {"user": "…", "pin": "…"},
        "url": "https://me:sesa…@example.org/x…",
        "header": "Authorization: Bearer abcd…",
        "card": "…",
    }
