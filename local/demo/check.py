"""The demo checks itself: each function answers one line of evidence, or raises with what is wrong."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.data.flights import ROWS
from local.demo import kill, scenario
from local.demo.expected import daily_delays
from local.demo.watch import DemoError, Watched
from longhaul.domain.lease import State
from longhaul.domain.manifest import Manifest
from longhaul.settings import LeaseSettings

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient


def require(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion that python -O keeps
    if not condition:
        raise DemoError(otherwise)


def manifest(s3: "S3Client", bucket: str, prefix: str) -> Manifest:
    return Manifest.model_validate_json(s3.get_object(Bucket=bucket, Key=f"{prefix}_SUCCESS")["Body"].read())


def every_job_succeeded(jobs: Iterable[Watched]) -> str:
    others = [
        f"{job.job_id} {job.state}" for job in jobs if job.lease is None or job.lease.state is not State.SUCCEEDED
    ]
    require(not others, f"not every job succeeded: {', '.join(others)}")
    return "every job succeeded"


def no_row_was_lost(s3: "S3Client", bucket: str, months: Sequence[Path]) -> str:
    rows = [manifest(s3, bucket, f"clean/{month.stem}/").rows for month in months]
    clean, quarantined = sum(each["."] for each in rows), sum(each["quarantine"] for each in rows)
    require(
        clean + quarantined == ROWS, f"{ROWS:,} rows went in, {clean:,} clean and {quarantined:,} quarantined came out"
    )
    return f"{ROWS:,} rows in = {clean:,} clean + {quarantined:,} quarantined"


def bad_rows_were_quarantined(s3: "S3Client", bucket: str, inputs: scenario.Inputs) -> str:
    rows = manifest(s3, bucket, f"clean/{scenario.BAD_ROWS_JOB}/").rows
    bad = sum(inputs.spoiled.bad.values())
    expected = {".": inputs.spoiled.rows - bad, "quarantine": bad}
    require(rows == expected, f"the file with {bad} bad rows gave {rows}, not {expected}")
    return f"{inputs.spoiled.rows:,} rows with {bad} bad ones = {rows['.']:,} clean + {rows['quarantine']} quarantined, each with its reason"


def delays_are_right(s3: "S3Client", bucket: str, months: Sequence[Path]) -> str:
    """Every figure of every day and carrier, against those computed without Spark."""
    expected = daily_delays(months)
    found = {(row["day"], row["carrier"]): row for row in _json_rows(s3, bucket, "delays-json/")}
    require(found.keys() == expected.keys(), f"{len(found)} days and carriers instead of {len(expected)}")
    for key, want in expected.items():
        row = found[key]
        wanted = (want.flights, want.cancelled, want.mean, want.p95)
        got = (row["flights"], row["cancelled"], row.get("mean_dep_delay"), row.get("p95_dep_delay"))
        same = all(_close(a, b) for a, b in zip(wanted, got, strict=True))
        require(same, f"{key}: flights, cancelled, mean and p95 delay are {got}, not {wanted}")
    flights = sum(each.flights for each in expected.values())
    return f"{len(expected):,} days and carriers, {flights:,} flights: all as computed without Spark"


def every_long_job_had_a_heartbeat(jobs: Iterable[Watched], numbers: LeaseSettings) -> str:
    attempts = [
        (job.job_id, attempt) for job in jobs for attempt in job.attempts.values() if attempt.outcome == "succeeded"
    ]
    long = [(job_id, attempt) for job_id, attempt in attempts if (attempt.seconds or 0) > numbers.beat_floor_s]
    silent = [job_id for job_id, attempt in long if attempt.beats == 0]
    require(bool(long) and not silent, f"no heartbeat seen in: {', '.join(silent) or 'any job'}")
    beats = sum(attempt.beats for _, attempt in long)
    return f"{beats} heartbeats over {len(long)} jobs that ran longer than the local floor of {numbers.beat_floor_s} s, none without"


def dead_letters(sqs: "SQSClient", queue_url: str) -> list[dict[str, Any]]:
    """The explanations of all dead letters, each read once."""
    found: dict[str, dict[str, Any]] = {}
    while messages := sqs.receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["longhaul"], VisibilityTimeout=60
    ).get("Messages", []):
        found |= {m["MessageId"]: json.loads(m["MessageAttributes"]["longhaul"]["StringValue"]) for m in messages}
    return list(found.values())


def only_the_invalid_body_is_dead(letters: Sequence[dict[str, Any]]) -> str:
    classes = [letter["class"] for letter in letters]
    require(
        classes == ["invalid_request"], f"the dead-letter queue holds {classes or 'nothing'}, not the one invalid body"
    )
    return "the dead-letter queue holds the invalid body, and nothing else"


def queue_is_empty(sqs: "SQSClient", queue_url: str) -> str:
    counts = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    left = {name: count for name, count in counts.items() if name.startswith("ApproximateNumberOf") and count != "0"}
    require(not left, f"the jobs queue is not empty: {left}")
    return "no message is left in the jobs queue"


def nothing_runs(ecs: "ECSClient", sfn: "SFNClient", cluster: str, machine: str) -> str:
    tasks = ecs.list_tasks(cluster=cluster, desiredStatus="RUNNING")["taskArns"]
    require(not tasks, f"{len(tasks)} tasks still run")
    executions = sfn.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
    require(not executions, f"{len(executions)} executions still run")
    processes = kill.task_processes()
    require(not processes, f"task processes still run: {processes}")
    return "no task, execution or task process is left"


def _json_rows(s3: "S3Client", bucket: str, prefix: str) -> Iterable[dict[str, Any]]:
    for file in manifest(s3, bucket, prefix).files:
        for line in s3.get_object(Bucket=bucket, Key=prefix + file.path)["Body"].iter_lines():
            yield json.loads(line)


def _close(a: float | None, b: float | None) -> bool:
    return a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
