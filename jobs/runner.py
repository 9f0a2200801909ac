"""What the container runs: `python -m jobs.runner`. Reads where it is from its environment, carries out the attempt, exits with a meaning.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt, LONGHAUL_SETTINGS the surroundings, ECS's metadata the task.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from jobs.ending import end_soon, stop_on_sigterm
from jobs.spark.gateway import Gateway
from jobs.stopping import Stop
from jobs.task import this_task


def main() -> int:
    """Carry out the attempt that the environment names; answers the exit code."""
    stop = Stop()
    stop_on_sigterm(stop)
    task = this_task()
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    gateway = Gateway(scratch, task.resources.heap_mib)
    try:
        # Only now: what this imports (boto3, pydantic, PySpark) would keep the JVM waiting, which takes longer than all else.
        from jobs.wiring import attempt_of  # noqa: PLC0415

        attempt = attempt_of(task, gateway, scratch, stop)
        stop.on_request(lambda: end_soon(attempt))
        return int(attempt.run())
    finally:
        gateway.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
