"""The oracles behind boto3 clients."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.oracles import servers
from tests.oracles.install import NotInstalledError

REGION = "us-east-1"


class Oracles:
    """The servers, each of which starts when a test first needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()

    def close(self) -> None:
        """Stop those that run."""
        self._running.close()

    @contextmanager
    def account(self) -> Iterator["Account"]:
        """An account of its own, so that tests do not see each other's tables and queues."""
        account = Account(self)
        yield account
        account.empty()

    def endpoint(self, service: str) -> str:
        """Where the service runs. Skips the test if there is no oracle of it here."""
        try:
            if service == "dynamodb":
                return self._dynamodb_local
            if service in {"s3", "sqs"}:
                return self._localstack
        except NotInstalledError as reason:
            pytest.skip(str(reason))
        pytest.skip(f"no oracle of {service}")

    @cached_property
    def _dynamodb_local(self) -> str:
        return self._running.enter_context(servers.dynamodb_local())

    @cached_property
    def _localstack(self) -> str:
        return self._running.enter_context(servers.localstack(self._folder / "localstack"))


@dataclass
class Account:
    """An account, named by its access key: both servers keep their state by access key."""

    oracles: Oracles
    access_key: str = field(
        default_factory=lambda: str(100_000_000_000 + secrets.randbelow(899_999_999_999))
    )
    _used: set[str] = field(default_factory=set)

    def client(self, service: Any, **more: Any) -> Any:
        """A boto3 client of this account."""
        endpoint = self.oracles.endpoint(service)
        self._used.add(service)
        return boto3.client(
            service,
            **{"region_name": REGION, **more},
            endpoint_url=endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key="secret",
        )

    def empty(self) -> None:
        """Remove the buckets: their names are one for all accounts."""
        if "s3" not in self._used:
            return
        s3 = self.client("s3")
        for bucket in s3.list_buckets()["Buckets"]:
            name = {"Bucket": bucket["Name"]}
            for upload in s3.list_multipart_uploads(**name).get("Uploads", []):
                s3.abort_multipart_upload(**name, Key=upload["Key"], UploadId=upload["UploadId"])
            for page in s3.get_paginator("list_object_versions").paginate(**name):
                for each in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                    s3.delete_object(**name, Key=each["Key"], VersionId=each["VersionId"])
            with suppress(s3.exceptions.NoSuchBucket):  # boto3 repeats a call that got no answer
                s3.delete_bucket(**name)
