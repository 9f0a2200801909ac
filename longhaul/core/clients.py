"""The clock, and the functions' boto3 clients: how long each waits, and how often it tries again.

A client is made at its first call, because most cold starts need two or three of them.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from threading import Lock
from typing import Any, Final

import boto3
from botocore.config import Config

_QUICK: Final = Config(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "max_attempts": 4},
    max_pool_connections=20,
)
"""Every call takes milliseconds: retry a hanging one within the function's own timeout."""

PUBLISHING: Final = Config(
    connect_timeout=2,
    read_timeout=60,
    retries={"mode": "standard", "max_attempts": 6},
    max_pool_connections=20,
)
"""CompleteMultipartUpload of a large file takes S3 some time."""

NOTIFYING: Final = Config(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "max_attempts": 2},
    max_pool_connections=20,
)
"""A notice that is not taken stays owed: a target that hangs must not hold up a sweep."""


class Clients:
    """The clients of a process.

    boto3's default session must not make two at once, so all share one lock.
    """

    def __init__(self, endpoint_url: str | None, make: Callable[..., Any] | None = None) -> None:
        """`make` has the form of `boto3.client`, which is the default."""
        self._endpoint_url = endpoint_url
        self._make: Callable[..., Any] = make or boto3.client
        self._lock = Lock()

    def client(self, service: str, config: Config = _QUICK, **more: str) -> Any:  # noqa: ANN401 - any client
        return _Lazy(
            lambda: self._make(service, config=config, endpoint_url=self._endpoint_url, **more),
            self._lock,
        )


class _Lazy:
    """A client that is made at its first call."""

    def __init__(self, make: Callable[[], Any], lock: Lock) -> None:
        self._make = make
        self._lock = lock

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any client's
        with self._lock:
            return getattr(self._client, name)

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - any client
        return self._make()


class SystemClock:
    def now(self) -> datetime:
        """Aware UTC in whole milliseconds, as the rows store it."""
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
