"""What the container runs: `python -m jobs.runner`. Reads where it is from its environment, carries out the attempt, exits with a meaning.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt, LONGHAUL_SETTINGS the surroundings, ECS's metadata the task.
"""

import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final

import boto3
from botocore.config import Config

from jobs import failures, logs
from jobs.attempt import Attempt
from jobs.stopping import Stop, StopReason
from jobs.task import this_task
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.s3_publisher import S3Publisher
from longhaul.adapters.s3_requests import S3Requests
from longhaul.domain.lease import AttemptId
from longhaul.settings import runtime_settings

# Transfers use up to this many connections at once; retries cover S3's and DynamoDB's throttles.
_AWS: Final = Config(max_pool_connections=48, retries={"mode": "standard", "total_max_attempts": 8})
# A progress report that AWS does not take within seconds is better made anew: while it is tried again, it goes on telling an old time, and minutes of that are
# what a stalled job looks like.
REPORTING: Final = Config(
    connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 2}, max_pool_connections=2
)
# A stopped attempt has this long to unwind by itself before it is ended where it stands; always well within ECS's stop timeout.
_UNWIND_S: Final = 5.0
_UNWIND_FRACTION: Final = 0.5

logger = logging.getLogger(__name__)


def main() -> int:
    """Carry out the attempt that the environment names; answers the exit code."""
    attempt_id = AttemptId(
        os.environ["LONGHAUL_KEY"], int(os.environ["LONGHAUL_RUN"]), int(os.environ["LONGHAUL_ATTEMPT"])
    )
    logs.configure(
        job_id=attempt_id.key.partition("#")[2], attempt=attempt_id.attempt, execution=attempt_id.execution_name
    )
    settings = runtime_settings()
    stop = Stop()
    _stop_on_sigterm(stop)
    s3, clock = boto3.client("s3", config=_AWS), SystemClock()
    bucket = settings.paths.data_bucket

    def leases(config: Config) -> DynamoLeases:
        return DynamoLeases(boto3.client("dynamodb", config=config), settings.leases_table, clock, random.Random())  # noqa: S311 - jitter

    attempt = Attempt(
        id=attempt_id,
        settings=settings,
        task=this_task(),
        clock=clock,
        leases=leases(_AWS),
        reports=leases(REPORTING),
        requests=S3Requests(s3, bucket),
        publisher=S3Publisher(s3, bucket),
        s3=s3,
        scratch=Path(tempfile.mkdtemp(prefix=f"longhaul-{attempt_id.token}-")),
        stop=stop,
    )
    grace_s = min(_UNWIND_S, settings.lease.stop_timeout_s * _UNWIND_FRACTION)
    stop.on_request(lambda: _end_soon(attempt, grace_s))
    return int(attempt.run())


def _stop_on_sigterm(stop: Stop) -> None:
    def handle(_number: int, _frame: FrameType | None) -> None:
        # In a thread: the handler interrupts the main thread anywhere, also where it holds a lock that the stop needs.
        threading.Thread(
            target=stop.request, args=(StopReason.TERMINATED, "the platform asked the task to stop (SIGTERM)")
        ).start()

    signal.signal(signal.SIGTERM, handle)


def _end_soon(attempt: Attempt, grace_s: float) -> None:
    """End the process after the grace period, whatever the main thread is stuck in."""

    def end() -> None:
        time.sleep(grace_s)
        failure = failures.of_stop(attempt.stop)
        logger.warning("did not unwind in time: ending now", extra={"outcome": failure.kind.value})
        attempt.record(failure)
        os._exit(failure.exit_code)

    threading.Thread(target=end, name="last-resort", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
