"""What the container runs: `python -m longhaul.engines.fargate.runner`.

It reads its environment, carries out the attempt, and exits with a code that says how it went.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt, LONGHAUL_JOB its
job, LONGHAUL_SETTINGS holds the settings, and ECS's metadata endpoint describes the task.
"""

import logging
import os
import shutil
import tempfile
from pathlib import Path

from longhaul.adapters.background import Threads
from longhaul.domain.verdict import ExitCode
from longhaul.runner.job_file import may_need_no_spark
from longhaul.runner.spark.gateway import LateGateway
from longhaul.runner.stopping import Stop, end_when_stopped, exit_with, stop_on_sigterm
from longhaul.runner.task import this_task

logger = logging.getLogger(__name__)


def main() -> int:
    """Carry out the attempt that the environment names, and return the exit code."""
    stop, background = Stop(), Threads()
    stop_on_sigterm(stop, background)
    try:
        task = this_task(stop)
    except ConnectionError:
        logger.exception("nothing was begun")
        return ExitCode.INTERRUPTED
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    gateway = LateGateway(scratch, task.resources)
    if not may_need_no_spark(os.environ.get("LONGHAUL_JOB")):
        gateway.start()
    try:
        # After the JVM's start, which takes longest: boto3, pydantic and PySpark would delay it.
        from longhaul.runner.wiring import task_attempt  # noqa: PLC0415

        attempt = task_attempt(task, gateway, scratch, stop, background)
        end_when_stopped(attempt)
        return int(attempt.run())
    finally:
        gateway.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    exit_with(main)
