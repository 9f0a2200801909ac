"""CloudWatch Logs in memory: groups of streams of lines."""
# ruff: noqa: N803 - botocore's names of arguments

from collections.abc import Callable
from datetime import datetime

from tests.fakes.service import Answer, Gate, RefusedError, Service, operation

Line = tuple[int, str]
"""Epoch milliseconds and text."""


class FakeLogs(Service):
    service = "logs"

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate)
        self.groups: dict[str, dict[str, list[Line]]] = {}
        self.page_size = 10_000
        self._now = now

    def write(self, group: str, stream: str, *texts: str) -> None:
        at = round(self._now().timestamp() * 1000)
        self.groups.setdefault(group, {}).setdefault(stream, []).extend((at, text) for text in texts)

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
        """At the end of a stream the same token comes back as was given. From its tail: the last page."""
        size = limit or self.page_size
        lines = self._group(logGroupName).get(logStreamName)
        if lines is None:
            raise RefusedError("ResourceNotFoundException", "The specified log stream does not exist.")
        head = 0 if startFromHead else max(0, len(lines) - size)
        start = int(nextToken.removeprefix("f/")) if nextToken else head
        page = lines[start : start + size]
        events = [{"timestamp": at, "message": text, "ingestionTime": at} for at, text in page]
        return {"events": events, "nextForwardToken": f"f/{start + len(page)}", "nextBackwardToken": f"b/{start}"}

    def _group(self, name: str) -> dict[str, list[Line]]:
        if name not in self.groups:
            raise RefusedError("ResourceNotFoundException", "The specified log group does not exist.")
        return self.groups[name]
