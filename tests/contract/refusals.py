"""What a service answers when it refuses."""

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
    """The code of the error that the call ends with; `ok` when it does not."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "ok"
