"""Logs of tasks in CloudWatch Logs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient


@dataclass(frozen=True)
class LogEvent:
    at: datetime
    text: str


class CloudWatchLogs:
    def __init__(self, client: "CloudWatchLogsClient") -> None:
        self._client = client

    def find_stream(
        self, group: str, phrase: str, matches: Callable[[str], bool], since: datetime
    ) -> str | None:
        """The stream of the first event that holds `phrase` and matches.

        Searches the group from `since` on, a page for each call; pages may be empty.
        """
        search: Any = {
            "logGroupName": group,
            "filterPattern": f'"{phrase}"',
            "startTime": round(since.timestamp() * 1000),
        }
        while True:
            page = self._client.filter_log_events(**search)
            for event in page.get("events", []):
                if matches(event["message"]):
                    return event["logStreamName"]
            if not page.get("nextToken"):
                return None
            search["nextToken"] = page["nextToken"]

    def read(self, group: str, stream: str, token: str | None) -> tuple[list[LogEvent], str | None]:
        """A page of a stream from its head, and the token of what follows.

        The same token again when there is nothing new. No token: no such stream yet.
        """
        following: Any = {"nextToken": token} if token else {}
        try:
            page = self._client.get_log_events(
                logGroupName=group, logStreamName=stream, startFromHead=True, **following
            )
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
            return [], None
        return _events(page), page["nextForwardToken"]

    def tail(self, group: str, stream: str, count: int) -> list[LogEvent]:
        """The last lines of a stream, in their order; at most `count`."""
        try:
            page = self._client.get_log_events(
                logGroupName=group, logStreamName=stream, startFromHead=False, limit=count
            )
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
            return []
        return _events(page)


def _events(page: Any) -> list[LogEvent]:  # noqa: ANN401 - a response of boto3
    return [
        LogEvent(datetime.fromtimestamp(event["timestamp"] / 1000, UTC), event["message"])
        for event in page["events"]
    ]
