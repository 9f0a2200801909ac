"""The record's entries: messages, dead letters and attempts."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from longhaul.core.lease import AttemptId
from simulation.aws.platform.job_process import JobProcess
from simulation.aws.sqs.queues import Message
from simulation.worlds.requests import FORGED

Row = Mapping[str, Any]
"""A stored lease."""


def time_in(row: Row, name: str) -> datetime:
    return datetime.fromtimestamp(int(row[name]["N"]) / 1000, UTC)


class Token(NamedTuple):
    """An attempt, as in its execution's name, its task's environment and its manifest."""

    key: str
    run: int
    attempt: int

    @property
    def stage(self) -> str:
        return self.key.partition("#")[0]

    @classmethod
    def of(cls, row: Row) -> "Token":
        """The latest attempt of a row."""
        return cls(row["key"]["S"], int(row["run"]["N"]), int(row["attempt"]["N"]))

    @classmethod
    def of_task(cls, attempt: AttemptId) -> "Token":
        return cls(attempt.key, attempt.run, attempt.attempt)

    @classmethod
    def in_event(cls, event: Mapping[str, Any]) -> "Token":
        """The attempt of which an event or a document is."""
        return cls(event["key"], int(event["run"]), int(event["attempt"]))


@dataclass(eq=False)
class Sent:
    """A message of a jobs queue and its request; `work` is None when it can never run."""

    message: Message
    key: str
    job: str
    work: int | None
    renews: str | None
    at: datetime
    request: Mapping[str, Any]
    is_follow_on: bool  # sent by the product; a redrive or a correction of one is not

    @property
    def stage(self) -> str:
        return self.key.partition("#")[0]

    def is_follow_on_like(self, other: "Sent") -> bool:
        """Whether both are sends of one follow-on."""
        return self.is_follow_on and (self.key, self.led_by) == (other.key, other.led_by)

    def leads_on_from(self, other: "Sent") -> bool:
        """Whether a later run of its parent has sent this one, which so runs in the other's place.

        What follows from one job is one chain of runs, of which the last has to end.
        """
        return self.is_follow_on and other.parent is not None and self.led_by > other.led_by

    @property
    def led_by(self) -> int:
        """The run of its parent that has led to it; of a join how often that has changed."""
        return int(self.request["lineage"]["run"]) if self.parent is not None else 0

    @property
    def parent(self) -> str | None:
        """The key of the job that it follows, or whose fan-out it joins.

        A forged lineage says nothing.
        """
        if "lineage" not in self.request or FORGED in self.request.get("params", {}):
            return None
        parent: str = self.request["lineage"]["parent"]
        return parent


@dataclass(eq=False)
class DeadLetter:
    body: str
    job_id: str | None
    reason: Mapping[str, Any]
    at: datetime

    def is_for(self, body: str) -> bool:
        """Whether it is about the work of that body, which may name it in another way, or not."""
        return bool(_without_names(self.body) == _without_names(body))


@dataclass(eq=False)
class SeenAttempt:
    token: Token
    started_at: datetime
    containers: list[JobProcess] = field(default_factory=list)
    ended_at: datetime | None = None
    is_placed: bool = False  # a task of it came to be
    is_settled: bool = True  # by its first settle, which hears of its task

    @property
    def faults_of_job(self) -> frozenset[str]:
        """The job's own faults in the tasks of this attempt."""
        return frozenset(
            each.fault_of_job for each in self.containers if each.fault_of_job is not None
        )

    @property
    def work(self) -> int | None:
        """The work of the request that it read; None if it read none."""
        return next((each.work for each in self.containers if each.work is not None), None)


class SeenAttempts(dict[Token, SeenAttempt]):
    """All attempts, in the order of their starts."""

    def __init__(self) -> None:
        super().__init__()
        self._of: defaultdict[str, list[SeenAttempt]] = defaultdict(list)

    def begin(self, token: Token, now: datetime) -> None:
        """Note an attempt, if it is not there yet."""
        if token not in self:
            self[token] = SeenAttempt(token, now)
            self._of[token.key].append(self[token])

    def of(self, key: str) -> Sequence[SeenAttempt]:
        return self._of[key]


def request_in(body: str) -> dict[str, Any]:
    """The request of a message; empty for a body that is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _without_names(body: str) -> Any:
    request = request_in(body)
    names = request.keys() - {"job_id", "label", "tags"}
    return {name: request[name] for name in names} if request else body
