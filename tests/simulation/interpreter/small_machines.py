"""Small state machines, whose functions and tasks answer when the test decides."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from simulation.aws.cloud import FakeAws
from simulation.aws.platform.timeline import Timeline
from simulation.aws.stepfunctions.interpreter import Failed, Interpreter, Tell

LAMBDA = "arn:aws:states:::lambda:invoke"
RUN_TASK = "arn:aws:states:::ecs:runTask.sync"

CALL = {"Type": "Task", "Resource": LAMBDA, "Parameters": {"In.$": "$"}, "TimeoutSeconds": 60}
JOB = {**CALL, "Resource": RUN_TASK}


def chain(**states: Any) -> dict[str, Any]:
    return {"StartAt": next(iter(states)), "States": states}


def parallel(*branches: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"Type": "Parallel", "Branches": list(branches), "End": True, **fields}


@dataclass
class Call:
    resource: str
    parameters: Any
    tell: Tell
    at: datetime
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class World:
    definition: dict[str, Any] | str
    seed: int = 1
    answer: Callable[[Call], None] = lambda _call: (
        None
    )  # answers at once; without it the test answers
    calls: list[Call] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        text = self.definition if isinstance(self.definition, str) else json.dumps(self.definition)
        self.aws = FakeAws()
        self.timeline = Timeline(self.aws.clock)
        self.sfn = self.aws.stepfunctions
        self.machine = self.sfn.create_state_machine(name="M", definition=text, roleArn="r")[
            "stateMachineArn"
        ]
        integrations = {resource: self.integration(resource) for resource in (LAMBDA, RUN_TASK)}
        self.engine = Interpreter(
            self.timeline,
            self.sfn,
            integrations,
            random.Random(self.seed),
            transition_s=lambda: 0,
        )
        self.engine.observers.append(
            lambda _execution, event, state: self.history.append(f"{event} {state}".strip())
        )
        self.sfn.engine = self.engine

    def integration(self, resource: str) -> Callable[[Any, Tell], Call]:
        def call(parameters: Any, tell: Tell) -> Call:
            made = Call(resource, parameters, tell, self.aws.clock.now())
            self.calls.append(made)
            self.answer(made)
            return made

        return call

    def start(self, data: Any = None) -> "World":
        answer = self.sfn.start_execution(
            stateMachineArn=self.machine, name="x", input=json.dumps(data or {})
        )
        self.arn = answer["executionArn"]
        return self

    def run(self, seconds: float = 10 * 86_400) -> "World":
        until = self.aws.clock.now() + timedelta(seconds=seconds)
        while self.timeline.step(until):
            pass
        return self

    @property
    def end(self) -> dict[str, Any]:
        return self.sfn.describe_execution(executionArn=self.arn)

    @property
    def outcome(self) -> tuple[Any, ...]:
        return tuple(self.end.get(name) for name in ("status", "error", "cause", "output"))


def failing(error: str = "Bad", cause: str = "very") -> Callable[[Call], None]:
    return lambda call: call.tell(Failed(error, cause))
