"""What EMR Serverless submits: `spark-submit emr_runner.py SETTINGS`. The driver of one attempt, which ends with the same exit codes as a Fargate task.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt; SETTINGS is what LONGHAUL_SETTINGS is elsewhere. It needs no JVM of its own,
and no package but those of the functions' layer and the release's PySpark.
"""

import os
import sys
import tempfile
from pathlib import Path

from jobs.ending import end_soon, stop_on_sigterm
from jobs.stopping import Stop
from jobs.wiring import cluster_attempt
from longhaul.settings import VARIABLE


def main(settings: str) -> int:
    """Carry out the attempt that the environment names; answers the exit code."""
    os.environ[VARIABLE] = settings
    stop = Stop()
    stop_on_sigterm(stop)
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    attempt = cluster_attempt(scratch, stop)
    stop.on_request(lambda: end_soon(attempt))
    return int(attempt.run())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
