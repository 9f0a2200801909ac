"""What a job imports is light, and typed."""

import re
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


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.slow
def test_a_type_checker_knows_the_parameters_of_a_job(tmp_path: Path) -> None:
    job = tmp_path / "typed_job.py"
    job.write_text(
        "from longhaul.job import Job, Params as Base\n"
        "class Params(Base):\n"
        "    least: int\n"
        "def run(spark: object, job: Job[Params]) -> None:\n"
        "    reveal_type(job.params.least)\n"
        "    job.params.most\n"
    )
    command = ["-m", "mypy", "--config-file=", f"--cache-dir={tmp_path}", str(job)]
    checked = subprocess.run(
        [sys.executable, *command], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    assert re.search(r'Revealed type is "(builtins\.)?int"', checked.stdout)
    assert 'error: "Params" has no attribute "most"' in checked.stdout
