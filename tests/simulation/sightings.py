"""What is noted of messages, dead letters and attempts as they are seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tests.fakes.sqs_queues import Message
from tests.simulation.containers import Container


class Token(NamedTuple):
    """One attempt, as the names of its execution, its task's environment and its manifest have it."""

    key: str
    run: int
    attempt: int


@dataclass(eq=False)
class Sent:
    """A message of a jobs queue and what it asks for; `work` is None when it can never run."""

    message: Message
    key: str
    job: str
    work: int | None
    renews: str | None
    at: datetime
    request: Mapping[str, Any]

    @property
    def stage(self) -> str:
        return self.key.partition("#")[0]

    @property
    def parent(self) -> str | None:
        """The key of the job from whose success it follows, or of the one whose fan-out it joins."""
        return self.request["lineage"]["parent"] if "lineage" in self.request else None


@dataclass(eq=False)
class DeadLetter:
    body: str
    job_id: str | None
    reason: Mapping[str, Any]
    at: datetime


@dataclass(eq=False)
class Attempt:
    token: Token
    started_at: datetime
    containers: list[Container] = field(default_factory=list)
    ended_at: datetime | None = None

    @property
    def faults_of_job(self) -> frozenset[str]:
        """How it went wrong, as far as that was the job's own doing: each of its tasks may have gone wrong in its own way."""
        return frozenset(each.fault_of_job for each in self.containers if each.fault_of_job is not None)

    @property
    def work(self) -> int | None:
        """Which of the requests under its key it carried out; None if it never came so far."""
        return next((each.work for each in self.containers if each.work is not None), None)
