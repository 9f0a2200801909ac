"""An attempt on one machine: a task of Fargate, or the process of a job in a function."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from longhaul.runner.job_file import may_need_no_spark
from longhaul.runner.spark.gateway import LateGateway
from longhaul.runner.stopping import Stop
from longhaul.runner.task import Task

if TYPE_CHECKING:
    from longhaul.core.ports import Background


def carry_out(task: Task, stop: Stop, background: "Background") -> int:
    """Carry out the attempt that the environment names, and return the exit code."""
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    gateway = LateGateway(scratch, task.resources)
    if not may_need_no_spark(os.environ.get("LONGHAUL_JOB")):
        gateway.start()
    try:
        # After the JVM's start, which takes longest: boto3, pydantic and PySpark would delay it.
        from longhaul.runner.wiring import task_attempt  # noqa: PLC0415

        attempt = task_attempt(task, gateway, scratch, stop, background)
        attempt.end_when_stopped()
        return int(attempt.run())
    finally:
        gateway.stop()
        shutil.rmtree(scratch, ignore_errors=True)
