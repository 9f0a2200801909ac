"""The log of an attempt: which stream it is, and its lines."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from longhaul.domain.job_run import name_in
from longhaul.domain.lease import Lease
from longhaul.ports import Clock, JobLogs, LogEvent

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

    def stream(self, lease: Lease, attempt: int) -> str | None:
        """The stream of an attempt; None when it has written nothing, or the log is gone.

        The row names the Fargate task of the latest attempt. For an earlier one, or a job run, the logs are searched: every line of the runner carries its attempt's token.
        """
        if attempt == lease.attempt and not (lease.task_arn and name_in(lease.task_arn)):
            return stream_of(lease)
        token = re.compile(rf"{lease.id.key_hash}-\d+-{attempt}(?!\d)")
        return self.logs.find_stream(
            self.group, f"{lease.id.key_hash}-", lambda text: token.search(text) is not None, _since(lease, attempt)
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


def stream_of(lease: Lease) -> str | None:
    """The stream of the latest attempt; None when its task has not registered, or is a job run, whose stream is named by an id that it does not know."""
    if lease.task_arn is None or name_in(lease.task_arn) is not None:
        return None
    return STREAM_PREFIX + lease.task_arn.rpartition("/")[2]


def _since(lease: Lease, attempt: int) -> datetime | None:
    """When that attempt began at the earliest: an attempt of this run not before the run; of an older one nobody knows."""
    in_this_run = lease.failures + lease.interruptions + (0 if lease.has_settled(lease.id) else 1)
    return datetime.fromtimestamp(lease.run / 1000, UTC) if attempt > lease.attempt - in_this_run else None
