"""Logs of tasks in CloudWatch Logs: where that of an attempt is, and the lines in it."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import ClientError

from longhaul.core.history import AttemptRecord, latest
from longhaul.core.lease import Lease
from longhaul.engines.aws_lambda.ends import LAMBDA, request_id
from longhaul.engines.listed import ENGINES
from longhaul.operations.errors import is_gone

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

# The last lines of a task arrive a little after its end.
GRACE: Final = timedelta(seconds=3)
_BEGIN: Final = "START RequestId: "


class LogEvent(NamedTuple):
    at: datetime
    text: str


class LogStream(NamedTuple):
    """Where the log of an attempt is: a stream, or one invocation's part of a stream."""

    name: str
    request_id: str | None = None


@dataclass(frozen=True)
class LogReader:
    client: "CloudWatchLogsClient"
    group: str

    def stream(self, record: AttemptRecord) -> LogStream | None:
        """The log of an attempt; None when it has written nothing, or the log is gone.

        The ARN of a Fargate task names its stream. The stream of an EMR Serverless job run is found
        by searching for the attempt's token, which is in each of its lines. The stream of a Lambda
        environment holds many invocations, each after a line with its id.
        """
        if name := ENGINES.log_stream(record.attempt):
            return LogStream(name)
        task, since = record.attempt.task_arn, record.attempt.claimed_at
        if task is None:
            return None
        invocation = request_id(task) if ENGINES.of(task) is LAMBDA else None
        phrase = invocation or record.id.token
        line = rf"{_BEGIN}{phrase}" if invocation else rf"{re.escape(phrase)}(?!\d)"
        name = self.find_stream(phrase, re.compile(line), since)
        return LogStream(name, invocation) if name else None

    def latest_stream(self, row: Lease) -> LogStream | None:
        """The log of a row's attempt."""
        return self.stream(latest(row))

    def find_stream(self, phrase: str, line: re.Pattern[str], since: datetime) -> str | None:
        """The stream of the first line that holds `phrase`, and what matches.

        Searches the group from `since` on, a page for each call; pages may be empty.
        """
        pages = self.client.get_paginator("filter_log_events").paginate(
            logGroupName=self.group,
            filterPattern=f'"{phrase}"',
            startTime=round(since.timestamp() * 1000),
        )
        events = (event for page in pages for event in page.get("events", []))
        return next(
            (each["logStreamName"] for each in events if line.search(each["message"])), None
        )

    def lines(self, stream: LogStream) -> Iterator[LogEvent]:
        """The lines so far."""
        events = (event for page, _ in self.pages(stream.name, None) for event in page)
        return _invocation(events, stream.request_id) if stream.request_id else events

    def tail(self, stream: LogStream, count: int) -> Sequence[LogEvent]:
        """The last lines so far."""
        if stream.request_id:
            return [*deque(self.lines(stream), maxlen=count)]
        page = self._page(stream.name, startFromHead=False, limit=count)
        return page[0] if page else []

    def pages(self, stream: str, token: str | None) -> Iterator[tuple[list[LogEvent], str]]:
        """Each page of a stream behind a token, with the token behind it; None is the head.

        The last one is empty, and has the token again. None where there is no such stream yet.
        """
        following = {"nextToken": token} if token else {}
        while page := self._page(stream, startFromHead=True, **following):
            yield page
            if {"nextToken": page[1]} == following:
                return
            following = {"nextToken": page[1]}

    def _page(self, stream: str, **options: Any) -> tuple[list[LogEvent], str] | None:  # noqa: ANN401
        try:
            page = self.client.get_log_events(
                logGroupName=self.group, logStreamName=stream, **options
            )
        except ClientError as error:
            if not is_gone(error):
                raise
            return None
        events = [
            LogEvent(datetime.fromtimestamp(each["timestamp"] / 1000, UTC), each["message"])
            for each in page["events"]
        ]
        return events, page["nextForwardToken"]


@dataclass
class LogCursor:
    """Reads a stream bit by bit, where several are followed at a time."""

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
        found: list[LogEvent] = []
        for events, token in self.reader.pages(self.stream.name, self.token):
            self.token = token
            found += events
        return found


def _invocation(events: Iterator[LogEvent], request_id: str) -> Iterator[LogEvent]:
    """What is between Lambda's lines for the start and the end of an invocation."""
    inside = False
    for event in events:
        if inside and event.text.startswith("END RequestId: "):
            return
        if inside:
            yield event
        inside = inside or event.text.startswith(f"{_BEGIN}{request_id}")
