"""Secrets in what a task says."""

import json
import logging
from base64 import b64encode
from urllib.parse import quote, quote_plus

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import LonghaulError
from longhaul.core.log_format import LogFormat
from longhaul.runner.masking import LEAST, Mask

PASSWORD = 'p"4s/s w0rd+é'
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n"


FIELDS = {"username": "shop_reader", "password": "short", "port": 5432, "db": {"dsn": "x" * 9}}
URL = "postgresql://reader:s3cre@db.example:5432/shop"


@pytest.mark.parametrize(
    ("secrets", "said", "masked"),
    [
        # As it may be written.
        *(
            ({"A": PASSWORD}, f"login as a with {written} failed", "login as a with [A] failed")
            for written in (
                PASSWORD,
                repr(PASSWORD)[1:-1],
                json.dumps(PASSWORD)[1:-1],
                json.dumps(json.dumps(PASSWORD))[3:-3],
                quote(PASSWORD, safe=""),
                quote_plus(PASSWORD),
            )
        ),
        # Each line of it is one.
        ({"KEY": KEY}, "cannot read 9w0BAQEFAASCBKcwggSj", "cannot read [KEY]"),
        ({"KEY": KEY}, f"cannot read {KEY!r}", "cannot read '[KEY]'"),
        # The fields of its JSON are, by their names.
        (
            {"DB": json.dumps(FIELDS)},
            "shop_reader/short at 5432",
            "[DB.username]/[DB.password] at 5432",
        ),
        ({"DB": json.dumps(FIELDS)}, "x" * 9, "[DB.db.dsn]"),
        # The password of a URL is, and so is the whole.
        ({"DSN": URL}, "no login with s3cre", "no login with [DSN]"),
        # Of two that begin alike the longer is meant.
        ({"ONE": "hunter", "TWO": "hunter22"}, "hunter22, hunter2", "[TWO], [ONE]2"),
        # A short one masks nothing.
        ({"A": "a", "B": "", "C": "abcd"}, "abcd a", "abcd a"),
    ],
)
def test_a_secret_is_masked_where_it_is_said(
    secrets: dict[str, str], said: str, masked: str
) -> None:
    assert Mask(secrets)(said) == masked


def test_a_secret_is_found_in_base64_also_after_a_name() -> None:
    for before in ("", "user:", "a user:"):
        said = b64encode(f"{before}tr0ub4dor&3".encode()).decode()
        masked = Mask({"TOKEN": "tr0ub4dor&3"})(f"Basic {said}")
        assert "[TOKEN]" in masked
        # Characters at the ends are made of other bytes, too.
        assert len(masked.replace("[TOKEN]", "")) <= len(f"Basic {before}") + 6


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (json.dumps({"type": "service_account", "private_key": KEY}), "9w0BAQEFAASCBKcwggSj"),
        (json.dumps({"db": json.dumps({"password": "s3cre"})}), "s3cre"),
        (json.dumps({"dsn": "postgresql://reader:s%40cre@db/shop"}), "s@cre"),
        (json.dumps("hunter22"), "hunter22"),
        ("Server=db;User Id=reader;Password=s3cre;", "s3cre"),
    ],
)
def test_what_a_secret_holds_is_found_in_its_parts_too(secret: str, said: str) -> None:
    assert "[" in (masked := Mask({"A": secret})(f"no login with {said}"))
    assert said not in masked


def test_a_document_loses_secrets_in_texts_and_keys_and_keeps_its_numbers() -> None:
    mask = Mask({"TOKEN": "hunter22", "PIN": "20131231"})
    masked = mask.document({"hunter22": [{"a": "x hunter22"}, 20131231, None, True, 1.5]})
    assert masked == {"[TOKEN]": [{"a": "x [TOKEN]"}, 20131231, None, True, 1.5]}


@given(st.text(min_size=LEAST), st.text(), st.text())
def test_no_text_shows_a_secret_that_it_held(secret: str, before: str, after: str) -> None:
    # With a character that begins no secret between, so that none goes on in what follows.
    said = Mask({"A": secret})(f"{before}{secret}{after}")
    assert secret not in said or secret in "[A]" * 4


# A function's log lines say which error it was and where, and quote no message.


SECRET = "the value of a message"


def written(error: BaseException) -> list[str]:
    return LogFormat().formatException((type(error), error, error.__traceback__)).splitlines()


def of_aws(code: str, text: str = SECRET) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": text}}, "PutItem")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError(SECRET), "KeyError"),
        (LonghaulError("no such stage"), "LonghaulError: no such stage"),
        (
            of_aws("AccessDenied", "not allowed"),
            "ClientError: AccessDenied at PutItem: not allowed",
        ),
        (of_aws("ValidationException"), "ClientError: ValidationException at PutItem"),
        (of_aws("InvalidParameterValue"), "ClientError: InvalidParameterValue at PutItem"),
        (of_aws("SerializationException"), "ClientError: SerializationException at PutItem"),
        (of_aws("Long", "x" * 300 + "y"), f"ClientError: Long at PutItem: {'x' * 300}"),
        (ClientError({}, "PutItem"), "ClientError:  at PutItem: "),
    ],
    ids=repr,
)
def test_an_error_is_its_class_and_a_text_that_quotes_nothing(error: Exception, said: str) -> None:
    assert written(error) == [said]


def test_each_error_is_followed_by_the_places_that_it_came_through() -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int(SECRET)
    name, place = written(raised.value)
    assert name == "ValueError"
    assert place.startswith(f"  {__file__}:")
    assert place.endswith(" test_each_error_is_followed_by_the_places_that_it_came_through")


def test_what_an_error_came_from_follows_it() -> None:
    while_handled, raised_from = KeyError(), KeyError()
    while_handled.__context__ = ValueError(SECRET)
    raised_from.__cause__ = OSError(SECRET)
    raised_from.__cause__.__context__ = ValueError(SECRET)
    assert written(while_handled) == ["KeyError", "ValueError"]
    assert written(raised_from) == ["KeyError", "OSError", "ValueError"]


def test_what_an_error_took_the_place_of_on_purpose_does_not() -> None:
    error = KeyError()
    error.__context__ = ValueError(SECRET)
    error.__cause__ = None  # as `raise … from None`
    assert written(error) == ["KeyError"]


def test_a_line_of_the_log_has_no_value_of_a_message() -> None:
    error = KeyError(SECRET)
    cause = type(error), error, None
    line = LogFormat().format(logging.LogRecord("name", 40, "file", 1, "failed", None, cause))
    assert "KeyError" in line
    assert SECRET not in line


def test_an_error_that_is_its_own_cause_is_written_once() -> None:
    error, other = KeyError(), ValueError()
    error.__cause__, other.__cause__ = other, error
    assert written(error) == ["KeyError", "ValueError"]
