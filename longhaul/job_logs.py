"""The log of an attempt: which stream it is, and its lines."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhaul.domain.history import Attempt
from longhaul.domain.job_run import name_in
from longhaul.domain.lease import Lease
from longhaul.ports import Clock, JobLogs, LogEvent

if TYPE_CHECKING:
    from datetime import datetime

STREAM_PREFIX = "job/job/"
"""ECS names a stream `<prefix>/<container>/<task id>`."""

_PERIOD_S = 1.0
# What a task wrote last arrives a little after its end.
_GRACE_S = 3.0


@dataclass(frozen=True)
class LogReader:
    clock: Clock
    logs: JobLogs
    group: str

    def stream(self, attempt: Attempt) -> str | None:
        """The stream of an attempt; None when it has written nothing, or the log is gone.

        A Fargate task's ARN names it. That of a job run has a name that the row does not know: its lines are searched for, since each carries its attempt's token.
        """
        if attempt.task_arn is None or name_in(attempt.task_arn) is None:
            return stream_of(attempt)
        token = re.compile(rf"{re.escape(attempt.id.token)}(?!\d)")
        return self.logs.find_stream(
            self.group, attempt.id.token, lambda text: token.search(text) is not None, attempt.claimed_at
        )

    def lines(self, stream: str, runs: Callable[[], bool] | None = None) -> Iterator[LogEvent]:
        """The lines that are there; with `runs` also those that come while it says so, and for a moment after."""
        token: str | None = None
        ended_at: datetime | None = None
        while True:
            events, following = self.logs.read(self.group, stream, token)
            yield from events
            if following is not None and following != token:
                token = following
                continue
            if runs is None:
                return
            now = self.clock.now()
            if ended_at is None and not runs():
                ended_at = now
            if ended_at is not None and (now - ended_at).total_seconds() >= _GRACE_S:
                return
            self.clock.sleep(_PERIOD_S)

    def tail(self, stream: str, count: int) -> Sequence[LogEvent]:
        """The last lines that are there."""
        return self.logs.tail(self.group, stream, count)


def stream_of(what: Lease | Attempt) -> str | None:
    """The stream of the attempt, or of the row's latest; None when its task has not registered, or is a job run (`LogReader.stream` finds its)."""
    if what.task_arn is None or name_in(what.task_arn) is not None:
        return None
    return STREAM_PREFIX + what.task_arn.rpartition("/")[2]
