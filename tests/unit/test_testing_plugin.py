"""The plugin of pytest is there wherever Longhaul is installed, and in nobody's way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.runner.job_file import JOBS_VARIABLE
from longhaul.testing import _JOBS_VARIABLE

OF_OTHERS = """
import sys

def test_nothing_of_longhaul_is_imported_but_the_plugin():
    loaded = {name for name in sys.modules if name.partition(".")[0] == "longhaul"}
    assert loaded == {"longhaul", "longhaul.testing"}
    heavy = {"boto3", "pydantic", "pyspark", "py4j", "psutil"}
    assert heavy.isdisjoint(sys.modules)
"""


def run(folder: Path, *options: str) -> str:
    """What pytest prints for the tests of a folder, with every warning as an error."""
    environment = {name: value for name, value in os.environ.items() if name != JOBS_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


# The second is how it was loaded before it had an entry point.
@pytest.mark.parametrize("options", [(), ("-p", "longhaul.testing")], ids=["usual", "named"])
def test_tests_of_others_run_with_it_and_import_nothing(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_others.py").write_text(OF_OTHERS)
    assert "1 passed" in run(tmp_path, *options)


def test_a_session_without_spark_names_the_line_to_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys; sys.modules['pyspark'] = None\n")
    (tmp_path / "test_job.py").write_text(
        "def test_job(spark): ...\ndef test_plain(make_job, written, emitted): ...\n"
    )
    printed = run(tmp_path)
    assert "1 passed, 1 error" in printed
    assert "this fixture of Longhaul needs pyspark" in printed
    assert "which is not installed: pip install 'longhaul-jobs[spark]'" in printed


def test_the_plugin_knows_the_variable_that_names_the_jobs() -> None:
    assert _JOBS_VARIABLE == JOBS_VARIABLE
