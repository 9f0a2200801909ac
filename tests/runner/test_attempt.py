"""What one attempt leaves in its row and its bucket, and its exit code."""

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession

from longhaul.core.clients import SystemClock
from longhaul.core.lease import AttemptId
from longhaul.core.objects import S3Requests
from longhaul.core.settings import LeaseSettings, PathPolicy
from longhaul.core.verdict import ExitCode
from longhaul.job import Job, Params
from longhaul.outputs.manifest import Manifest, ManifestFile
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.running_job import RunningJob
from longhaul.runner.script import ScriptParams, run_script
from tests.builders import BUCKET, settings, stage
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import CSV, OUTPUT, Instead, NoSpark, write_one_row

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
    def fail(spark: SparkSession, job: Job[Any]) -> None:
        job.write(spark.range(3).selectExpr("1 div (id - 2) AS x"))

    assert make_attempt(fail).run() is ExitCode.FAILED

    result = cloud.result()
    assert result.kind == "failed"
    assert "[DIVIDE_BY_ZERO] Division by zero" in result.error
    assert "\tat " not in result.error
    assert cloud.pending_uploads() == []


def test_a_quiet_period_holds_for_the_time_that_the_job_names(make_job: Any) -> None:
    job = make_job({})
    progress, before = job.saving.progress, SystemClock().now()
    with job.quiet("waiting for the API", "20m"):
        assert progress.note == "waiting for the API"
        assert progress.is_quiet(before + timedelta(minutes=20))
        assert not progress.is_quiet(before + timedelta(minutes=25))
    assert (progress.note, progress.quiet_until) == ("", ())


@pytest.mark.usefixtures("demo_jobs")
def test_an_attempt_reads_what_the_claim_of_its_run_was_allowed_to(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.s3.create_bucket(Bucket="landing")
    cloud.s3.put_object(Bucket="landing", Key="2013-01.csv", Body=CSV)
    cloud.claim(inputs={"flights": "s3://landing/2013-01.csv"})
    narrower = settings(paths=PathPolicy(data_bucket=BUCKET), jobs=("sql",))
    assert make_attempt(settings=narrower).run() is ExitCode.OK


def test_a_join_reads_the_inputs_that_are_stored_beside_its_request(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    ref = "longhaul/joined/x.json"
    inputs = {f"clean_{n:05}": f"s3://{BUCKET}/out/{n}/part.csv" for n in range(2)}
    for path in inputs.values():
        cloud.s3.put_object(Bucket=BUCKET, Key=path.split("/", 3)[3], Body=b"n\n1\n")
    S3Requests(cloud.s3, BUCKET).put_inputs(ref, inputs)
    cloud.claim(inputs={}, lineage={"root": "main#a", "parent": "main#a", "inputs_ref": ref})
    seen = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        seen.extend(sorted(job.inputs))
        write_one_row(spark, job)

    assert make_attempt(run).run() is ExitCode.OK
    assert seen == list(inputs)


def test_what_a_job_emits_is_counted_and_sealed_in_its_row(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    stages = (stage(next=("clean",)), stage(name="clean", job="sql"))
    known = settings(stages=stages, lease=LeaseSettings(progress_period_s=0.05))

    def run(spark: SparkSession, job: Job[Any]) -> None:
        write_one_row(spark, job)
        job.emit({"params": {"query": "SELECT 1"}}, {"params": {"query": "SELECT 2"}})

    assert make_attempt(run, settings=known).run() is ExitCode.OK
    output = cloud.output()
    assert output.emitted == {"clean": 2}
    assert len(output.seal or "") == 32


LARGE = "raw/large.txt"


def refused(code: str) -> Callable[[], Exception]:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {}}
    return lambda: ClientError(answer, "GetObject")


@pytest.mark.parametrize(
    ("error", "exit_code", "text"),
    [
        (refused("AccessDenied"), ExitCode.FAILED, "An error occurred (AccessDenied)"),
        (refused("SlowDown"), ExitCode.INTERRUPTED, "(SlowDown)"),
        (refused("InvalidObjectState"), ExitCode.PERMANENT, f"s3://{BUCKET}/{LARGE} is archived"),
        (lambda: ConnectionResetError(104, "reset by peer"), ExitCode.INTERRUPTED, "reset by peer"),
        (lambda: OSError(28, "No space left on device"), ExitCode.OUT_OF_DISK, "No space left"),
    ],
)
def test_an_input_that_cannot_be_brought_is_the_end_before_the_job_begins(
    cloud: Cloud,
    make_plain_attempt: MakeAttempt,
    tmp_path: Path,
    error: Callable[[], Exception],
    exit_code: ExitCode,
    text: str,
) -> None:
    def get_object(**given: Any) -> Any:
        if given["Key"] == LARGE:
            raise error()
        return cloud.s3.get_object(**given)

    cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"large, and more")
    cloud.claim(inputs={"large": f"s3://{BUCKET}/{LARGE}"}, output=f"s3://{BUCKET}/counts/")
    s3: Any = Instead(cloud.s3, get_object=get_object)
    area = DiskArea(s3, tmp_path / "scratch", {})

    attempt = make_plain_attempt(lambda _: pytest.fail("the job begins"), s3=s3, area=area)
    assert attempt.run() is exit_code

    assert text in cloud.result().error


def running(**parts: Any) -> RunningJob[Any]:
    usual: dict[str, Any] = {
        "params": Params(),
        "staged": {"a": StagedInput("a", 1, 1, frozenset(), "1")},
        "output_folder": Path(),
        "emitter": None,
        "saving": None,
    }
    return RunningJob(**usual | parts)


def test_the_inputs_of_a_job_are_values() -> None:
    a = running().inputs["a"]
    assert pickle.loads(pickle.dumps(a)) == a  # noqa: S301 - our own


def test_words_of_a_script_name_no_input_together(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nassert sys.argv[1:] == ['{inputs.a', 'b}']\n")
    params = ScriptParams(argv=("{inputs.a", "b}"))
    run_script(script, running(params=params, output_folder=tmp_path / "output"))
