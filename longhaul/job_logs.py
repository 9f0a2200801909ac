"""The log of an attempt: which stream it is, and its lines."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhaul.domain.history import Attempt
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
    """The stream of the attempt, or of the row's latest; None when its task has not registered."""
    return STREAM_PREFIX + what.task_arn.rpartition("/")[2] if what.task_arn else None
