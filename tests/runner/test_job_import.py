"""What a job imports is light."""

import subprocess
import sys
from pathlib import Path

import pytest

import longhaul

PACKAGE = Path(longhaul.__file__).parent
AWS_AND_SPARK = {"boto3", "botocore", "py4j", "pyspark"}


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [
        ("longhaul.job", AWS_AND_SPARK | {"longhaul.runner"}),
        # What runs before Spark's JVM is started, which takes longest.
        ("longhaul.engines.fargate.runner", AWS_AND_SPARK | {"pydantic"}),
    ],
)
def test_an_import_loads_nothing_that_it_would_wait_for(imported: str, heavy: set[str]) -> None:
    code = f"import sys, {imported}; print(sorted(sys.modules.keys() & {heavy!r}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "[]\n"
