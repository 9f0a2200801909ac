"""What an attempt of a pipeline reads and leaves for what follows."""

from typing import Any

from pyspark.sql import SparkSession

from longhaul.core.objects import S3Requests
from longhaul.core.settings import LeaseSettings
from longhaul.core.verdict import ExitCode
from longhaul.job import Job
from tests.builders import BUCKET, settings, stage
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import write_one_row


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
    cloud.claim(inputs={})
    stages = (stage(next=("clean",)), stage(name="clean", job="sql"))
    known = settings(stages=stages, lease=LeaseSettings(progress_period_s=0.05))

    def run(spark: SparkSession, job: Job[Any]) -> None:
        write_one_row(spark, job)
        job.emit({"params": {"query": "SELECT 1"}}, {"params": {"query": "SELECT 2"}})

    assert make_attempt(run, settings=known).run() is ExitCode.OK
    output = cloud.lease().attempt.output
    assert output is not None
    assert output.emitted == {"clean": 2}
    assert len(output.seal or "") == 32
