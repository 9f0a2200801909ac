"""The log of an attempt: its stream, and the lines in it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.operations.ports import JobLogs, LogEvent
from longhaul.domain.engines.emr_serverless import name_in
from longhaul.domain.history import AttemptRecord, log_stream
from longhaul.ports import Clock

if TYPE_CHECKING:
    from datetime import datetime

_PERIOD_S = 1.0
# The last lines of a task arrive a little after its end.
_GRACE_S = 3.0


@dataclass(frozen=True)
class LogReader:
    clock: Clock
    logs: JobLogs
    group: str

    def stream(self, record: AttemptRecord) -> str | None:
        """The stream of an attempt; None when it has written nothing, or the log is gone.

        The ARN of a Fargate task names its stream. The stream of an EMR Serverless job run is found
        by searching for the attempt's token, which is in each of its lines.
        """
        if record.attempt.task_arn is None or name_in(record.attempt.task_arn) is None:
            return log_stream(record.attempt)
        token = re.compile(rf"{re.escape(record.id.token)}(?!\d)")
        return self.logs.find_stream(
            self.group,
            record.id.token,
            lambda text: token.search(text) is not None,
            record.attempt.claimed_at,
        )

    def lines(self, stream: str, runs: Callable[[], bool] | None = None) -> Iterator[LogEvent]:
        """The lines so far; with `runs` also new ones while it is true, and for a moment after."""
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
        """The last lines so far."""
        return self.logs.tail(self.group, stream, count)
