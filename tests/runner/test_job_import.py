"""What a job imports is light, and typed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import longhaul

PACKAGE = Path(longhaul.__file__).parent
HEAVY = ("boto3", "botocore", "longhaul.runner", "py4j", "pyspark")


def test_a_jobs_import_loads_no_spark_and_no_aws() -> None:
    code = (
        "import sys; from longhaul.job import Job, Params, PermanentJobError;"
        f"print(sorted(sys.modules.keys() & {set(HEAVY)!r}))"
    )
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
