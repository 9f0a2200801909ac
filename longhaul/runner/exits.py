"""How a job's code may end itself."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from longhaul.core.verdict import ExitCode
from longhaul.job import PermanentJobError
from longhaul.runner.stopping import end_process

logger = logging.getLogger(__name__)


class ExitError(Exception):
    """The job ended itself with an exit code that is not 0, or as if from outside."""


@contextmanager
def heeding_exits() -> Iterator[None]:
    """Let `sys.exit` end the job's code with an outcome, and a process that it has forked.

    Such a process has all of the runner's state, and would clear up, publish, or end Spark's JVM.

    Raises:
        PermanentJobError: the code exits with 65.
        ExitError: it exits with another code than 0, or ends with what is no `Exception`.
        Exception: as the code raises it.
    """
    runner = os.getpid()
    code: object = None
    try:
        yield
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        if os.getpid() != runner:
            logger.exception("a process that the job has forked failed")
            end_process(1)
        if _is_from_outside(error):
            said = f": {error}" if str(error) else ""
            raise ExitError(f"the job ended with {type(error).__name__}{said}") from error
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


def _is_from_outside(error: BaseException) -> bool:
    """Whether the error is no `Exception`, and no stop of ours either."""
    # Who raises its error has loaded asyncio. To load it here would take longer than a small job.
    asyncio = sys.modules.get("asyncio")
    cancels = (asyncio.CancelledError,) if asyncio else ()
    return isinstance(error, (KeyboardInterrupt, GeneratorExit, BaseExceptionGroup, *cancels)) and (
        not isinstance(error, Exception)
    )
