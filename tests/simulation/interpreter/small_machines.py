"""Small state machines, whose functions and tasks answer when the test decides."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from longhaul.core.request import MAX_TIMEOUT_S
from simulation.aws.cloud import FakeAws
from simulation.aws.platform.timeline import Timeline
from simulation.aws.stepfunctions.interpreter import Done, Failed, Interpreter, Tell
from simulation.aws.template import deployed

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


INPUT = {
    "key": "main#a",
    "stage": "main",
    "run": "1",
    "attempt": "1",
    "engine": "fargate",
    "capacity": "FARGATE",
    "job": "flights_clean",
    "size": "small",
    "timeout_s": MAX_TIMEOUT_S,
    "job_tag": "flights_clean",
    "label_tag": "",
    "first_wait_s": 15,
}
"""Of an attempt that may run for as long as any."""


def attempt(lasts_s: float) -> World:
    """An attempt in the deployed machine, to its end, with a beat in five minutes."""

    def answer(call: Call) -> None:
        if call.resource == RUN_TASK:
            world.timeline.after(lasts_s, lambda: call.tell(Done({})))
            return
        payload: dict[str, Any] = {"outcome": "SUCCEEDED"}
        if "settle" not in call.parameters["FunctionName"]:
            following = "end" if "TaskStateExited Settle" in world.history else "wait"
            payload = {"next": following, "wait_s": 300, "cause": None}
        call.tell(Done({"Payload": payload}))

    world = World(deployed().definition, answer=answer)
    return world.start(INPUT).run()
