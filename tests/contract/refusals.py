"""Error codes of refused calls."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError


@contextmanager
def refused(code: str, text: str = "") -> Iterator[None]:
    with pytest.raises(ClientError, match=re.escape(text) or None) as refusal:
        yield
    assert refusal.value.response["Error"]["Code"] == code


def code_of(call: Callable[[], Any]) -> str:
    """The error code of the call, or `ok`."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "ok"
