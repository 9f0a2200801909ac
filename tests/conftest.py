"""Fake credentials, so that no test can reach an AWS account, and patience on busy machines."""

import importlib
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import settings

os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_TRACE_DISABLED="1",
    POWERTOOLS_SERVICE_NAME="longhaul",
)
os.environ.pop("AWS_PROFILE", None)

settings.register_profile("patient", deadline=None)  # a slow machine is no wrong example
settings.load_profile("patient")


@pytest.fixture(scope="session")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`tests.oracles.engines.Oracles`, which is imported only where a test needs it."""
    engines = importlib.import_module("tests.oracles.engines")
    with closing(engines.Oracles(tmp_path_factory.mktemp("oracles"))) as running:
        yield running
