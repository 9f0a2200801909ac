"""Which job a line of a function's log is about: whoever writes it, and in whichever thread."""

from collections.abc import Iterator
from contextlib import contextmanager

from aws_lambda_powertools import Logger

from longhaul.domain.lease import AttemptId

logger = Logger(child=True)


@contextmanager
def about(what: AttemptId | str) -> Iterator[None]:
    """Within, every line of this thread carries `job_id`; of an attempt also `attempt` and `execution`, as the runner's lines do.

    Args:
        what: An attempt, or a job's key as long as there is none.
    """
    key = what if isinstance(what, str) else what.key
    before = dict(logger.thread_safe_get_current_keys())
    logger.thread_safe_append_keys(job_id=key.partition("#")[2])
    if isinstance(what, AttemptId):
        logger.thread_safe_append_keys(attempt=what.attempt, execution=what.execution_name)
    try:
        yield
    finally:
        logger.thread_safe_clear_keys()
        logger.thread_safe_append_keys(**before)
