"""One worker runs the tests that share a session of Spark, and only those."""

import ast

import pytest

from tests.shared_spark import leading_to_spark, uses, uses_spark


@pytest.mark.parametrize(
    "code",
    [
        "def test_a(spark): ...",
        "@pytest.fixture\ndef frame(*, spark): ...",
        "def test_a(request): request.getfixturevalue('spark')",
        "@pytest.mark.usefixtures('tmp_path', 'spark')\ndef test_a(): ...",
    ],
)
def test_a_file_uses_spark_if_a_test_or_a_fixture_asks_for_it(code: str) -> None:
    assert uses(ast.parse(code), {"spark"})


@pytest.mark.parametrize(
    "code",
    [
        "def test_a(tmp_path): start('spark')",
        "from pyspark.sql import SparkSession\ndef test_a(cloud): spark = cloud",
    ],
)
def test_a_file_that_names_spark_in_another_way_does_not_use_it(code: str) -> None:
    assert not uses(ast.parse(code), {"spark"})


def test_fixtures_that_lead_to_spark_are_found_through_others() -> None:
    assert {"spark", "make_attempt", "attempts"} <= leading_to_spark()
    assert leading_to_spark().isdisjoint({"cloud", "remote", "tmp_path", "make_job"})


def test_files_with_processes_of_their_own_run_on_any_worker() -> None:
    files = ("runner/test_sql", "runner/test_saving", "runner/test_staging", "unit/test_masking")
    assert [uses_spark(f"tests/{each}.py") for each in files] == [True, True, False, False]
