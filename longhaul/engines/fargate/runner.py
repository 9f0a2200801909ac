"""What the container runs: `python -m longhaul.engines.fargate.runner`.

It reads its environment, carries out the attempt, and exits with a code that says how it went.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt, LONGHAUL_JOB its
job, LONGHAUL_SETTINGS holds the settings, and ECS's metadata endpoint describes the task.
"""

import logging

from longhaul.core.background import Threads
from longhaul.core.verdict import ExitCode
from longhaul.runner.one_machine import carry_out
from longhaul.runner.stopping import Stop, exit_with, stop_on_sigterm
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
    return carry_out(task, stop, background)


if __name__ == "__main__":
    exit_with(main)
