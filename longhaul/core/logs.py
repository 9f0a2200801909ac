"""The job of a function's log lines: every line in a block names it, whatever writes the line."""

from collections.abc import Iterator
from contextlib import contextmanager

from aws_lambda_powertools import Logger

from longhaul.core.lease import AttemptId

logger = Logger(child=True)


@contextmanager
def about(what: AttemptId | str, label: str | None = None) -> Iterator[None]:
    """Every line of this thread has `job_id`; for an attempt also `attempt` and `execution`.

    The runner's lines have the same names.

    Args:
        what: An attempt, or a job's key while it has none.
        label: The job's, which every line has too.
    """
    key = what if isinstance(what, str) else what.key
    before = dict(logger.thread_safe_get_current_keys())
    logger.thread_safe_append_keys(job_id=key.partition("#")[2])
    if isinstance(what, AttemptId):
        logger.thread_safe_append_keys(attempt=what.attempt, execution=what.execution_name)
    if label:
        logger.thread_safe_append_keys(label=label)
    try:
        yield
    finally:
        logger.thread_safe_clear_keys()
        logger.thread_safe_append_keys(**before)
