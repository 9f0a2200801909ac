"""Running jobs: invocations of our Lambda function."""

from collections.abc import Callable, Iterator
from datetime import datetime

from longhaul.core.lease import AttemptId
from longhaul.core.ports import RunningTask
from longhaul.core.verdict import StoppedTask
from longhaul.engines.aws_lambda.ends import ends_by


class Invocations:
    """`ports.Tasks` on Lambda, which has no call for either: an invocation ends by itself."""

    def __init__(self, aws_time: Callable[[], datetime]) -> None:
        """`aws_time`: AWS's own. Of the two clocks that matter the other one may be wrong."""
        self._aws_time = aws_time

    def running(self) -> Iterator[RunningTask]:
        return iter(())

    def stop(self, task_arn: str, attempt: AttemptId, reason: str) -> StoppedTask:  # noqa: ARG002 - no one is told
        """Its runner stops at its next report; Lambda ends it at its timeout at the latest."""
        gone_by = ends_by(task_arn)
        return StoppedTask(is_gone=self._aws_time() >= gone_by, gone_by=gone_by)
