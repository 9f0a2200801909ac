"""A runner without Spark: it registers, reports, uploads, commits and publishes by the product's own code, and dies where its request says.

`params.plan` has one word for each attempt, the last of which holds for all that follow; `params.work_s` says how long each works.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import boto3

from jobs.io.publisher import Uploader
from jobs.io.written import Dataset
from jobs.stopping import Stop
from jobs.task import this_task
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.s3_publisher import S3Publisher
from longhaul.adapters.s3_requests import S3Requests
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import AttemptId
from longhaul.domain.outcome import ExitCode
from longhaul.settings import runtime_settings

PERIOD_S = 0.5
EXITS = {"fails": ExitCode.FAILED, "cannot succeed": ExitCode.PERMANENT, "writes nothing": ExitCode.OK}


def main() -> int:
    attempt = AttemptId(
        os.environ["LONGHAUL_KEY"], int(os.environ["LONGHAUL_RUN"]), int(os.environ["LONGHAUL_ATTEMPT"])
    )
    settings, clock, s3 = runtime_settings(), SystemClock(), boto3.client("s3")
    leases = DynamoLeases(boto3.client("dynamodb"), settings.leases_table, clock, random.Random())
    try:
        lease = leases.register_task(attempt, this_task().arn, clock.now())
        request = json.loads(S3Requests(s3, settings.paths.data_bucket).get(lease.request_ref).body)
        plan = request["params"]["plan"]
        step = plan[min(attempt.attempt, len(plan)) - 1]
        if not work(leases, attempt, request["params"].get("work_s", 0)):
            return ExitCode.INTERRUPTED
        if step in EXITS:
            return EXITS[step]
        die_or_hang(step, "killed")
        publish(leases, attempt, S3Publisher(s3, settings.paths.data_bucket), request["output"], step)
    except LeaseChangedError:
        return ExitCode.SUPERSEDED
    return ExitCode.OK


def work(leases: DynamoLeases, attempt: AttemptId, seconds: float) -> bool:
    """Take that long, and report; False when the job was cancelled meanwhile."""
    done_at = time.monotonic() + seconds
    while True:
        if leases.report_progress(attempt, {"phase": "running"}, datetime.now(UTC)).cancel_requested_at:
            return False
        left_s = done_at - time.monotonic()
        if left_s <= 0:
            return True
        time.sleep(min(PERIOD_S, left_s))


def publish(leases: DynamoLeases, attempt: AttemptId, publisher: S3Publisher, prefix: str, step: str) -> None:
    uploader = Uploader(
        boto3.client("s3"),
        runtime_settings().paths.data_bucket,
        Stop(),
        begin=lambda _: None,
        advance=lambda _: None,
    )
    output = uploader.upload(attempt, prefix, [Dataset(".", written(attempt), 1)])
    die_or_hang(step, "killed with uploads")
    leases.commit(attempt, output)
    die_or_hang(step, "killed after its commit")
    publisher.publish(output)
    leases.mark_published(attempt, datetime.now(UTC))


def written(attempt: AttemptId) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="longhaul-standin-"))
    (folder / "part-00000.json").write_text(json.dumps({"key": attempt.key, "attempt": attempt.attempt}) + "\n")
    return folder


def die_or_hang(step: str, here: str) -> None:
    """If that is what is planned for this place."""
    if step == here:
        os.kill(os.getpid(), signal.SIGKILL)
    if step == "hangs for good":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if step.startswith("hangs"):
        while True:
            signal.pause()


if __name__ == "__main__":
    sys.exit(main())
