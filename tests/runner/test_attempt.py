"""What one attempt leaves in its row and its bucket, and its exit code."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from longhaul.core.clients import SystemClock
from longhaul.core.lease import AttemptId
from longhaul.core.verdict import ExitCode
from longhaul.job import Job
from longhaul.outputs.manifest import Manifest, ManifestFile
from tests.builders import BUCKET, settings
from tests.runner.attempts import CSV, OUTPUT, NoSpark, write_one_row
from tests.runner.conftest import Cloud, MakeAttempt

pytestmark = pytest.mark.usefixtures("demo_jobs")

ROW = b'{"n":1}\n'


def input_file(cloud: Cloud) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key="raw/2013-01.csv", Body=CSV)


def test_a_job_ends_published_with_exact_counts_in_its_manifest(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.claim()
    input_file(cloud)
    attempt = make_attempt()

    assert attempt.run() is ExitCode.OK

    lease = cloud.lease()
    assert lease.attempt.output is not None
    assert lease.attempt.published_at is not None
    assert lease.attempt.task_arn == "arn:task/1"
    manifest = cloud.manifest(OUTPUT)
    assert (manifest.token, manifest.rows) == (lease.id.token, {".": 1, "quarantine": 1})
    assert sorted(cloud.objects(OUTPUT)) == sorted(
        [OUTPUT + file.path for file in manifest.files] + [f"{OUTPUT}_SUCCESS"]
    )
    assert cloud.pending_uploads() == []
    assert not attempt.scratch.exists()


def test_a_wrong_parameter_is_permanent_and_names_the_field_not_the_value(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    input_file(cloud)
    cloud.claim(params={"max_bad_fraction": 17, "colour": "secret"})

    assert make_attempt().run() is ExitCode.PERMANENT

    result = cloud.result()
    assert result.kind == "permanent"
    assert "params.max_bad_fraction: Input should be less than or equal to 1" in result.error
    assert "params.colour" in result.error
    assert "secret" not in result.error


def test_an_existing_output_in_mode_error_is_permanent_before_anything_is_begun(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.claim(mode="error")
    cloud.s3.put_object(Bucket=BUCKET, Key=f"{OUTPUT}part-0.csv", Body=b"")

    assert make_attempt(spark=NoSpark()).run() is ExitCode.PERMANENT

    assert cloud.result().error.startswith(
        f"output: mode is error, and s3://{BUCKET}/{OUTPUT} holds part-0.csv"
    )


def test_an_output_that_came_up_while_the_job_ran_in_mode_error_is_permanent_and_stays(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.claim(inputs={}, mode="error")

    def run(spark: SparkSession, job: Job[Any]) -> None:
        write_one_row(spark, job)
        cloud.s3.put_object(Bucket=BUCKET, Key=f"{OUTPUT}part-0.csv", Body=b"")

    assert make_attempt(run).run() is ExitCode.PERMANENT

    assert cloud.lease().attempt.output is None
    assert (cloud.objects(OUTPUT), cloud.pending_uploads()) == ([f"{OUTPUT}part-0.csv"], [])


def test_a_job_that_compacts_its_own_output_keeps_what_was_appended_while_it_ran(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    run = 1767323045000

    def appended(key: str, before: Manifest | None = None) -> Manifest:
        """An append of one row by another job; puts the file and the manifest."""
        file = f"part-{AttemptId(key, run, 1).token}.json"
        files = (*(before.files if before else ()), ManifestFile(path=file, size=len(ROW)))
        manifest = Manifest(key=key, run=run, attempt=1, files=files)
        cloud.s3.put_object(Bucket=BUCKET, Key=OUTPUT + file, Body=ROW)
        cloud.s3.put_object(
            Bucket=BUCKET, Key=f"{OUTPUT}_SUCCESS", Body=manifest.model_dump_json().encode()
        )
        return manifest

    first = appended("main#first")
    cloud.claim(inputs={"rows": f"s3://{BUCKET}/{OUTPUT}"})

    def compact(spark: SparkSession, job: Job[Any]) -> None:
        rows = spark.read.json(job.input("rows"))
        appended("main#second", before=first)
        job.write(rows.coalesce(1), format="json")

    assert make_attempt(compact).run() is ExitCode.OK

    kept, compacted = (file.path for file in cloud.manifest(OUTPUT).files)
    assert AttemptId("main#second", run, 1).token in kept
    assert cloud.lease().id.token in compacted
    assert not any(first.token in name for name in cloud.objects(OUTPUT))


def test_a_request_that_became_invalid_is_permanent(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.claim(job="daily_delays")
    attempt = make_attempt(settings=settings(jobs=("sql",)))

    assert attempt.run() is ExitCode.PERMANENT


def test_a_failing_job_is_recorded_with_its_cause(cloud: Cloud, make_attempt: MakeAttempt) -> None:
    cloud.claim(inputs={})

    def fail(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(3).selectExpr("1 div (id - 2) AS x"))

    assert make_attempt(fail).run() is ExitCode.FAILED

    result = cloud.result()
    assert result.kind == "failed"
    assert "[DIVIDE_BY_ZERO] Division by zero" in result.error
    assert "\tat " not in result.error
    assert cloud.pending_uploads() == []


def test_a_job_that_writes_nothing_has_no_output(cloud: Cloud, make_attempt: MakeAttempt) -> None:
    cloud.claim(inputs={})

    assert make_attempt(lambda _spark, _job: None).run() is ExitCode.FAILED

    assert cloud.result().kind == "no_output"


def test_a_quiet_period_holds_for_the_time_that_the_job_names(make_job: Any) -> None:
    job = make_job({})
    progress, before = job.saving.progress, SystemClock().now()
    with job.quiet("waiting for the API", "20m"):
        assert progress.note == "waiting for the API"
        assert progress.is_quiet(before + timedelta(minutes=20))
        assert not progress.is_quiet(before + timedelta(minutes=25))
    assert (progress.note, progress.quiet_until) == ("", ())
