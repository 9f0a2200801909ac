"""The demo's own checks: each returns a line of evidence, or raises a `DemoError`."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from examples.demo import kill, scenario
from examples.demo.expected import daily_delays
from examples.demo.flights import ROWS
from examples.demo.watch import DemoError, WatchedJob
from longhaul.core.history import AttemptRecord
from longhaul.core.lease import State
from longhaul.core.places import DataPath
from longhaul.core.settings import LeaseSettings
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.listed import ENGINES
from longhaul.outputs.manifest import Manifest
from longhaul.saved import record as saved

MONTHS: Final = 12
# Times the floor: many months last little longer than the floor itself.
_BEAT_DUE_AT: Final = 3

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient


Tables = Callable[[str], Sequence[Mapping[str, Any]]]
"""The rows of a SELECT over the stack's tables."""


def require(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion that python -O keeps
    if not condition:
        raise DemoError(otherwise)


def manifest(s3: "S3Client", prefix: str) -> Manifest:
    """Of an output: `prefix` is `s3://bucket/key/`."""
    place = DataPath.on_s3(prefix)
    bucket, key = place.bucket, place.key
    return Manifest.model_validate_json(
        s3.get_object(Bucket=bucket, Key=f"{key}_SUCCESS")["Body"].read()
    )


def every_job_succeeded(jobs: Iterable[WatchedJob]) -> str:
    others = [
        f"{job.label} {job.state}"
        for job in jobs
        if job.lease is None or job.lease.state is not State.SUCCEEDED
    ]
    require(not others, f"not every job succeeded: {', '.join(others)}")
    return "every job succeeded"


def one_submission_became(
    jobs: Sequence[WatchedJob], cleaned: Sequence[WatchedJob], delays: WatchedJob
) -> str:
    """Twelve jobs and one that joined them, each exactly once."""
    family = [
        job for job in jobs if job.lease and delays.lease and job.lease.root == delays.lease.root
    ]
    require(
        len(cleaned) == MONTHS and len(family) == MONTHS + 2,
        f"one submission became {len(cleaned)} months and {len(family)} jobs in all",
    )
    started = delays.attempts[0].attempt.claimed_at
    late = [
        job.label
        for job in cleaned
        if job.lease and job.lease.settled_at and job.lease.settled_at > started
    ]
    require(not late, f"the join started before these were done: {', '.join(late)}")
    return f"one submission became {MONTHS} months and 1 join, which started when the last was done"


def sizes_are_right(cleaned: Iterable[WatchedJob], killed: Iterable[WatchedJob]) -> str:
    """Months begin as `tiny` on Lambda; all else, and what is killed there, runs on Fargate."""
    places = {job.label: [_place(record) for record in job.attempts] for job in cleaned}
    others = [label for label, tried in places.items() if tried[0] != ("tiny", "lambda")]
    require(not others, f"not tiny, on Lambda: {', '.join(others)}")
    for job in killed:
        size, engine = _place(job.attempts[1])
        require(
            (size, engine) == ("small", "fargate"),
            f"{job.label} was killed and went on with {size} on {engine}",
        )
    return f"{MONTHS} months ran on Lambda; what was killed went on with small, on Fargate"


def join_went_on(join: WatchedJob, stored: int, s3: "S3Client", bucket: str) -> str:
    """The attempt after the kill computed the other parts alone; nothing stays of what was stored.

    `stored` is how many were, as the kill found it; one more may have been under way.
    """
    text = join.attempts[1].attempt.progress.get("taken_over")
    taken = re.fullmatch(r"(\d+) parts", str(text))
    require(
        taken is not None and stored <= int(taken[1]) < MONTHS,
        f"{join.label} had stored {stored} of {MONTHS} parts, and took over {text or 'nothing'}",
    )
    left = s3.list_objects_v2(Bucket=bucket, Prefix=saved.PREFIX)["KeyCount"]
    require(not left, f"{left} objects are left of what jobs stored")
    return f"the join was killed in its middle; its next attempt took over {text} of {MONTHS}"


def no_row_was_lost(tables: Tables) -> str:
    """Each month adds its rows to one table, also the one that was killed, and once."""
    (clean,) = tables("SELECT count(*) AS n FROM flights")
    (bad,) = tables("SELECT count(*) AS n FROM flights__quarantine")
    require(
        clean["n"] + bad["n"] == ROWS,
        f"{ROWS:,} rows went in, {clean['n']:,} clean and {bad['n']:,} quarantined came out",
    )
    return (
        f"{ROWS:,} rows in = {clean['n']:,} clean + {bad['n']:,} quarantined in the table "
        f"{scenario.FLIGHTS}, read by DuckDB"
    )


def bad_rows_were_quarantined(s3: "S3Client", bucket: str, inputs: scenario.Inputs) -> str:
    rows = manifest(s3, f"s3://{bucket}/clean/bad-rows/").rows
    bad = sum(inputs.spoiled.bad.values())
    expected = {".": inputs.spoiled.rows - bad, "quarantine": bad}
    require(rows == expected, f"the file with {bad} bad rows gave {rows}, not {expected}")
    return (
        f"{inputs.spoiled.rows:,} rows with {bad} bad ones = {rows['.']:,} clean + "
        f"{rows['quarantine']} quarantined, each with its reason"
    )


def delays_are_right(tables: Tables, months: Sequence[Path]) -> str:
    """Compares every figure of every day and carrier with those computed without Spark."""
    expected = daily_delays(months)
    rows = tables("SELECT * FROM delays")
    found = {(row["day"], row["carrier"]): row for row in rows}
    require(
        found.keys() == expected.keys(),
        f"{len(found)} days and carriers instead of {len(expected)}",
    )
    for key, want in expected.items():
        row = found[key]
        wanted = (want.flights, want.cancelled, want.mean, want.p95)
        got = (
            row["flights"],
            row["cancelled"],
            row["mean_dep_delay"],
            row["p95_dep_delay"],
        )
        same = all(_close(a, b) for a, b in zip(wanted, got, strict=True))
        require(same, f"{key}: flights, cancelled, mean and p95 delay are {got}, not {wanted}")
    flights = sum(each.flights for each in expected.values())
    return (
        f"{len(expected):,} days and carriers, {flights:,} flights, in the table "
        f"{scenario.DELAYS}: all as computed without Spark"
    )


def every_long_job_had_a_heartbeat(jobs: Iterable[WatchedJob], timing: LeaseSettings) -> str:
    """A first beat is due at the floor, and may be a little late on a busy machine."""
    due_s = _BEAT_DUE_AT * timing.beat_floor_s
    attempts = [
        (job.label, record)
        for job in jobs
        for record in job.attempts
        if record.kind == OutcomeClass.SUCCEEDED
    ]
    long = [(label, record) for label, record in attempts if _seconds(record) > due_s]
    silent = [label for label, record in long if record.attempt.beats == 0]
    beats = sum(record.attempt.beats for _, record in attempts)
    require(beats > 0 and not silent, f"no heartbeat seen in: {', '.join(silent) or 'any job'}")
    return (
        f"{beats} heartbeats, the first after {timing.beat_floor_s} s; of the {len(long)} jobs "
        f"that ran longer than {due_s:g} s, none was without"
    )


def dead_letters(sqs: "SQSClient", queue_url: str) -> list[dict[str, Any]]:
    """The explanations of all dead letters."""
    found: dict[str, dict[str, Any]] = {}
    while messages := sqs.receive_message(
        QueueUrl=queue_url,
        MaxNumberOfMessages=10,
        MessageAttributeNames=["longhaul"],
        VisibilityTimeout=60,
    ).get("Messages", []):
        found |= {
            m["MessageId"]: json.loads(m["MessageAttributes"]["longhaul"]["StringValue"])
            for m in messages
        }
    return list(found.values())


def only_the_invalid_body_is_dead(letters: Sequence[dict[str, Any]]) -> str:
    classes = [letter["class"] for letter in letters]
    require(
        classes == ["invalid_request"],
        f"the dead-letter queue holds {classes or 'nothing'}, not the one invalid body",
    )
    return "the dead-letter queue holds the invalid body, and nothing else"


def queues_are_empty(sqs: "SQSClient", queue_urls: Sequence[str]) -> str:
    left = []
    for url in queue_urls:
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        if any(int(n) for name, n in counts.items() if name.startswith("ApproximateNumberOf")):
            left.append(url.rpartition("/")[2])
    require(not left, f"messages are left in: {', '.join(left)}")
    return f"no message is left in the {len(queue_urls)} queues of jobs"


def nothing_runs(
    ecs: "ECSClient", sfn: "SFNClient", cluster: str, machine: str, endpoint: str
) -> str:
    tasks = ecs.list_tasks(cluster=cluster, desiredStatus="RUNNING")["taskArns"]
    require(not tasks, f"{len(tasks)} tasks still run")
    executions = sfn.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
    require(not executions, f"{len(executions)} executions still run")
    processes = [pid for pid, runs_job in kill.processes_of(endpoint).items() if runs_job]
    require(not processes, f"processes of jobs still run: {processes}")
    return "no task, execution or process of a job is left"


def _place(record: AttemptRecord) -> tuple[str, str]:
    """The attempt's size and engine."""
    return record.size, ENGINES.of(record.attempt.task_arn or "").name


def _seconds(record: AttemptRecord) -> float:
    """From the claim to the end; 0 without an end."""
    began = record.attempt.claimed_at
    return ((record.ended_at or began) - began).total_seconds()


def _close(a: float | None, b: float | None) -> bool:
    return a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
