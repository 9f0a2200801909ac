"""One attempt as a script: what its functions answer and how its task goes.

The same script is played in the simulation and in moto's interpreter.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from longhaul.cdk.definition import definition
from longhaul.engines.fargate.states import fargate_states
from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Failure, Task

RUN_TASK: Mapping[str, Any] = {
    "Cluster": "Longhaul",
    "NetworkConfiguration": {"AwsvpcConfiguration": {"Subnets": ["subnet-1"]}},
}
ROLES: Mapping[str, str] = {"main": "arn:aws:iam::123456789012:role/job"}


DEFINITION = json.dumps(
    definition(
        engines=[fargate_states(RUN_TASK, "Longhaul", ROLES, "aws")],
        heartbeat_arn="heartbeat",
        heartbeat_timeout_s=30,
        settle_arn="settle",
        settle_timeout_s=60,
        beat_ceiling_s=15,
        partition="aws",
    )
)

INPUT: Mapping[str, Any] = {
    "version": 1,
    "key": "main#flights-2013-01",
    "stage": "main",
    "run": "1767323045000",
    "attempt": "1",
    "capacity": "FARGATE",
    "job": "flights_clean",
    "size": "small",
    "timeout_s": 21600,
    "job_tag": "flights_clean",
    "label_tag": "",
    "first_wait_s": 15,
}


@dataclass(frozen=True)
class Raises:
    """The function raises."""

    kind: str
    message: str = "no luck"

    @property
    def payload(self) -> dict[str, str]:
        return {"errorType": self.kind, "errorMessage": self.message}


@dataclass(frozen=True)
class Refuses:
    """Lambda's API refuses the invocation."""

    code: str
    message: str = "not now"
    status: int = 500
    request_id: str = "00000000-0000-0000-0000-000000000000"


FunctionAnswer = Mapping[str, Any] | Raises | Refuses


def beat(following: str, wait_s: object = 15, cause: object = None) -> FunctionAnswer:
    """An answer of the heartbeat."""
    return {"next": following, "wait_s": wait_s, "cause": cause}


END = beat("end")
SUCCEEDED: FunctionAnswer = {"outcome": "SUCCEEDED"}
RELEASED: FunctionAnswer = {"outcome": "RELEASED"}


@dataclass(frozen=True)
class End:
    """The task's end; `after_beat`: just before the answer of that beat, 0 for at once."""

    after_beat: int = 1
    exit_code: int | None = 0
    stop_code: str = "EssentialContainerExited"
    reason: str = "Essential container in task exited"


@dataclass(frozen=True)
class Script:
    """One attempt.

    Attributes:
        beats: Answers of the heartbeat, in order.
        settles: Answers of settle, in order; the last one repeats.
        end: The task's end; None: it runs until it is stopped.
        refusal: The error of RunTask.
        ends_in: The task ends on entry into this state, instead of after a number of beats.
        stopped_in: An operator stops the execution on entry into this state.
        changes: Changes of INPUT.
    """

    beats: tuple[FunctionAnswer, ...] = (beat("wait"),)
    settles: tuple[FunctionAnswer, ...] = (SUCCEEDED,)
    end: End | None = field(default_factory=End)
    refusal: Exception | None = None
    ends_in: str | None = None
    stopped_in: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def input(self) -> str:
        return json.dumps({**INPUT, **self.changes})


class Player:
    """Plays a script so that the order of the branches does not matter.

    A beat waits for the task's launch. A beat beyond those of the script waits until the attempt is
    settled, and then ends. In moto each call comes in a thread of its own.
    """

    def __init__(self, script: Script, aws: FakeAws) -> None:
        self.calls: dict[str, list[Any]] = {"heartbeat": [], "settle": []}
        self._script = script
        self._aws = aws
        self._task: Task | None = None
        self._unanswered: deque[Callable[[FunctionAnswer], None]] = deque()
        self._beats = 0
        self._settled = self._ends = False
        self._lock = RLock()
        aws.ecs.create_cluster(clusterName="Longhaul")
        aws.ecs.register_task_definition(
            family="Longhaul-small", containerDefinitions=[{"name": "job"}]
        )
        aws.ecs.containers = self
        aws.ecs.before_launch = self._before_launch

    def invoke(self, function: str, payload: Any, answer: Callable[[FunctionAnswer], None]) -> None:
        with self._lock:
            self.calls[function].append(payload)
            if function == "settle":
                self._settle(answer)
            else:
                self._unanswered.append(answer)
            self._go_on()

    def entered(self, state: str) -> None:
        """An execution enters a state."""
        with self._lock:
            self._ends |= state == self._script.ends_in
            self._go_on()

    def let_go(self) -> None:
        """FunctionAnswer the beats that still wait, since the execution is over."""
        with self._lock:
            self._settled = True
            self._go_on()

    def launched(self, task: Task) -> None:
        with self._lock:
            self._task = task
            self._aws.ecs.run(task)
            self._go_on()

    def terminated(self, task: Task) -> None:
        self._aws.ecs.end(task, stop_code="UserInitiated", reason="stopped", exit_code=143)

    def _before_launch(self, _request: Mapping[str, Any]) -> None:
        if self._script.refusal is not None:
            raise self._script.refusal

    def _settle(self, answer: Callable[[FunctionAnswer], None]) -> None:
        settles = self._script.settles
        answered = settles[min(len(self.calls["settle"]), len(settles)) - 1]
        answer(answered)
        self._settled |= isinstance(answered, Mapping)

    def _go_on(self) -> None:
        self._end_task_if_due()
        while self._unanswered and (following := self._next_beat()) is not None:
            self._beats += 1
            self._end_task_if_due()
            self._unanswered.popleft()(following)

    def _next_beat(self) -> FunctionAnswer | None:
        if self._task is None and self._script.refusal is None and not self._settled:
            return None
        if self._beats < len(self._script.beats):
            return self._script.beats[self._beats]
        return END if self._settled else None

    def _end_task_if_due(self) -> None:
        end, task = self._script.end, self._task
        if task is None or end is None:
            return
        if self._ends or (self._script.ends_in is None and self._beats >= end.after_beat):
            self._aws.ecs.end(
                task, stop_code=end.stop_code, reason=end.reason, exit_code=end.exit_code
            )


NO_CAPACITY = Failure("Capacity is unavailable at this time")
