"""Moto in this process, without any state, for one test after another.

A client of a new session reads botocore's models of its service again, which takes longer than most
tests do with it. So clients are made once for all tests of a process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.core import models

REGION = "us-east-1"


def client(service: str, region_name: str = REGION, **options: Any) -> Any:
    """A client of moto, while `moto_account` runs; one with options is a new one."""
    return _made(service, region_name, **options) if options else _kept(service, region_name)


def _made(service: str, region_name: str, **options: Any) -> Any:
    make: Any = _session().client  # its overloads want a literal service name
    return make(service, region_name=region_name, **options)


_kept = cache(_made)


@cache
def _session() -> boto3.Session:
    return boto3.Session()


@contextmanager
def moto_account() -> Iterator[Callable[..., Any]]:
    """An empty account; yields what makes its clients."""
    with pytest.MonkeyPatch.context() as patch:
        # What answers calls of `requests`, which nothing here makes: 1,250 objects for each test.
        patch.setattr(models, "RESPONSES_METHODS", [])
        with mock_aws():
            yield client
