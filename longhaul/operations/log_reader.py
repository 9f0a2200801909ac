"""The log of an attempt: its stream, and the lines in it."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from longhaul.domain.history import AttemptRecord, log_stream
from longhaul.engines.aws_lambda.ends import LAMBDA, request_id
from longhaul.engines.listed import engine_of
from longhaul.operations.cloudwatch_logs import CloudWatchLogs, LogEvent

# The last lines of a task arrive a little after its end.
GRACE = timedelta(seconds=3)


@dataclass(frozen=True)
class LogStream:
    """Where the log of an attempt is: a stream, or one invocation's part of a stream."""

    name: str
    request_id: str | None = None


@dataclass(frozen=True)
class LogReader:
    logs: CloudWatchLogs
    group: str

    def stream(self, record: AttemptRecord) -> LogStream | None:
        """The log of an attempt; None when it has written nothing, or the log is gone.

        The ARN of a Fargate task names its stream. The stream of an EMR Serverless job run is found
        by searching for the attempt's token, which is in each of its lines. The stream of a Lambda
        environment holds many invocations, each after a line with its id.
        """
        if name := log_stream(record.attempt):
            return LogStream(name)
        task, since = record.attempt.task_arn, record.attempt.claimed_at
        if task is None:
            return None
        if engine_of(task) is LAMBDA:
            id_ = request_id(task)
            name = self.logs.find_stream(self.group, id_, partial(_begins, id_), since)
            return LogStream(name, id_) if name else None
        token = re.compile(rf"{re.escape(record.id.token)}(?!\d)")
        name = self.logs.find_stream(
            self.group, record.id.token, lambda text: token.search(text) is not None, since
        )
        return LogStream(name) if name else None

    def lines(self, stream: LogStream) -> Iterator[LogEvent]:
        """The lines so far."""
        events = self._events(stream.name)
        return _invocation(events, stream.request_id) if stream.request_id else events

    def since(self, stream: str, token: str | None) -> tuple[list[LogEvent], str | None]:
        """The lines behind a token, and the token behind them; None begins at the start."""
        found: list[LogEvent] = []
        while True:
            events, following = self.logs.read(self.group, stream, token)
            found += events
            if following is None or following == token:
                return found, token
            token = following

    def _events(self, stream: str) -> Iterator[LogEvent]:
        token: str | None = None
        while True:
            events, following = self.logs.read(self.group, stream, token)
            yield from events
            if following is None or following == token:
                return
            token = following

    def cursor(self, stream: LogStream) -> "LogCursor":
        """Reads a stream bit by bit, where several are followed at a time."""
        return LogCursor(self, stream)

    def tail(self, stream: LogStream, count: int) -> Sequence[LogEvent]:
        """The last lines so far."""
        if stream.request_id:
            return [*deque(self.lines(stream), maxlen=count)]
        return self.logs.tail(self.group, stream.name, count)


@dataclass
class LogCursor:
    reader: LogReader
    stream: LogStream
    token: str | None = None
    lines: int = 0

    def read_on(self) -> Sequence[LogEvent]:
        """The lines since the last call."""
        if self.stream.request_id:  # a tiny job's are few, and only its whole stream is read
            events = list(self.reader.lines(self.stream))
            new, self.lines = events[self.lines :], len(events)
            return new
        new, self.token = self.reader.since(self.stream.name, self.token)
        return new


def _begins(request_id: str, text: str) -> bool:
    return text.startswith(f"START RequestId: {request_id}")


def _invocation(events: Iterator[LogEvent], request_id: str) -> Iterator[LogEvent]:
    """What is between Lambda's lines for the start and the end of an invocation."""
    inside = False
    for event in events:
        if inside and event.text.startswith("END RequestId: "):
            return
        if inside:
            yield event
        inside = inside or _begins(request_id, event.text)
