"""CloudWatch Logs in memory: groups of streams of lines."""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from simulation.aws.service import Answer, Gate, Pages, RefusedError, Service, operation

Line = tuple[int, str]
"""Epoch milliseconds and text."""


class FakeLogs(Service):
    service = "logs"
    paginators: ClassVar[Pages] = {"filter_log_events": (("nextToken", "nextToken"),)}

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate)
        self.groups: dict[str, dict[str, list[Line]]] = {}
        self.page_size = 10_000
        self._now = now

    def write(self, group: str, stream: str, *texts: str) -> None:
        at = round(self._now().timestamp() * 1000)
        self.groups.setdefault(group, {}).setdefault(stream, []).extend(
            (at, text) for text in texts
        )

    @operation
    def get_log_events(
        self,
        *,
        logGroupName: str,
        logStreamName: str,
        startFromHead: bool,
        nextToken: str | None = None,
        limit: int | None = None,
    ) -> Answer:
        """A page of a stream, from its head or its tail.

        At the end of the stream the response has the token of the request.
        """
        size = limit or self.page_size
        lines = self._group(logGroupName).get(logStreamName)
        if lines is None:
            raise RefusedError(
                "ResourceNotFoundException", "The specified log stream does not exist."
            )
        head = 0 if startFromHead else max(0, len(lines) - size)
        start = int(nextToken.removeprefix("f/")) if nextToken else head
        page = lines[start : start + size]
        events = [{"timestamp": at, "message": text, "ingestionTime": at} for at, text in page]
        return {
            "events": events,
            "nextForwardToken": f"f/{start + len(page)}",
            "nextBackwardToken": f"b/{start}",
        }

    @operation
    def filter_log_events(
        self,
        *,
        logGroupName: str,
        filterPattern: str,
        startTime: int = 0,
        nextToken: str | None = None,
    ) -> Answer:
        """Matching lines; an empty page may still have a next one."""
        if not (
            filterPattern.startswith('"')
            and filterPattern.endswith('"')
            and filterPattern.count('"') == 2
        ):
            raise NotImplementedError("this fake knows one quoted phrase")
        everything = sorted(
            (at, stream, text)
            for stream, lines in self._group(logGroupName).items()
            for at, text in lines
        )
        start = int(nextToken or 0)
        page = everything[start : start + self.page_size]
        events = [
            {
                "logStreamName": stream,
                "timestamp": at,
                "message": text,
                "ingestionTime": at,
                "eventId": f"{start + n}",
            }
            for n, (at, stream, text) in enumerate(page)
            if at >= startTime and filterPattern[1:-1] in text
        ]
        more = {"nextToken": str(start + len(page))} if start + len(page) < len(everything) else {}
        return {"events": events, "searchedLogStreams": [], **more}

    def _group(self, name: str) -> dict[str, list[Line]]:
        if name not in self.groups:
            raise RefusedError(
                "ResourceNotFoundException", "The specified log group does not exist."
            )
        return self.groups[name]
