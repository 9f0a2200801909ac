"""What EMR Serverless submits: `spark-submit runner.py SETTINGS [VARIABLES]`.

The driver of one attempt. It ends with the same exit codes as a Fargate task.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt. SETTINGS is what
LONGHAUL_SETTINGS is elsewhere, and VARIABLES what LONGHAUL_VARIABLES is, both percent-encoded. It
needs no JVM of its own, and no packages but those of the functions' layer and the release's
PySpark.
"""

import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from longhaul.core.background import Threads
from longhaul.core.settings import JOB_VARIABLES, VARIABLE
from longhaul.runner.stopping import Stop, exit_with, stop_on_sigterm
from longhaul.runner.wiring import cluster_attempt


def main(settings: str, variables: str = "{}") -> int:
    """Carry out the attempt that the environment names, and return the exit code.

    Both are percent-encoded JSON.
    """
    os.environ[VARIABLE] = unquote(settings)
    os.environ[JOB_VARIABLES] = unquote(variables)
    stop, background = Stop(), Threads()
    stop_on_sigterm(stop, background)
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    attempt = cluster_attempt(scratch, stop, background)
    attempt.end_when_stopped()
    return int(attempt.run())


if __name__ == "__main__":
    exit_with(lambda: main(*sys.argv[1:]))
