"""A function's log lines say which error it was and where, and quote no message."""

import logging

import pytest
from botocore.exceptions import ClientError

from longhaul.core.errors import LonghaulError
from longhaul.core.log_format import LogFormat

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
