"""How a job's code may end itself."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from longhaul.domain.verdict import ExitCode
from longhaul.job import PermanentJobError
from longhaul.runner.stopping import end_process

logger = logging.getLogger(__name__)


class ExitError(Exception):
    """The job ended itself with an exit code that is not 0."""


@contextmanager
def heeding_exits() -> Iterator[None]:
    """Let `sys.exit` end the job's code with an outcome, and a process that it has forked.

    Such a process has all of the runner's state, and would clear up, publish, or end Spark's JVM.

    Raises:
        PermanentJobError: the code exits with 65.
        ExitError: it exits with another code than 0.
        Exception: as the code raises it.
    """
    runner = os.getpid()
    code: object = None
    try:
        yield
    except SystemExit as end:
        code = end.code
    except Exception:
        if os.getpid() != runner:
            logger.exception("a process that the job has forked failed")
            end_process(1)
        raise
    if os.getpid() != runner:
        end_process(code if isinstance(code, int) else int(code is not None))
    match code:
        case None | 0:
            return
        case ExitCode.PERMANENT:
            raise PermanentJobError(
                f"the job exited with {int(ExitCode.PERMANENT)}: it cannot succeed"
            )
    raise ExitError(f"the job exited with {code}")
