"""Plays a script in the simulation."""

import json
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from simulation.aws.cloud import FakeAws
from simulation.aws.platform.timeline import Timeline
from simulation.aws.stepfunctions.client import Execution
from simulation.aws.stepfunctions.interpreter import Done, Failed, Interpreter, Result
from simulation.aws.stepfunctions.sync import RunTaskSync
from tests.simulation.conformance.played import Played, played
from tests.simulation.conformance.scripts import (
    DEFINITION,
    FunctionAnswer,
    Player,
    Raises,
    Refuses,
    Script,
)


class _Invocation:
    """Continues when it is cancelled."""

    def cancel(self) -> None: ...


def play(script: Script) -> Played:
    aws = FakeAws()
    timeline = Timeline(aws.clock)
    player = Player(script, aws)
    sfn = aws.stepfunctions
    machine = sfn.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn="role")[
        "stateMachineArn"
    ]

    def invoke(parameters: dict[str, Any], done: Callable[[Result], None]) -> _Invocation:
        player.invoke(
            parameters["FunctionName"],
            parameters["Payload"],
            lambda answer: done(result_of_invoke(answer)),
        )
        return _Invocation()

    integrations: dict[str, Any] = {
        "arn:aws:states:::lambda:invoke": invoke,
        "arn:aws:states:::ecs:runTask.sync": RunTaskSync(timeline, aws.ecs),
    }
    sfn.engine = engine = Interpreter(timeline, sfn, integrations, random.Random(1))
    events: list[tuple[str, str]] = []

    def observe(execution: Execution, event: str, state: str) -> None:
        events.append((event, state))
        if event.endswith("StateEntered"):
            player.entered(state)
        if event.endswith("StateEntered") and state == script.stopped_in:
            timeline.after(
                0,
                lambda: sfn.stop_execution(
                    executionArn=execution.arn, error="Operator", cause="by hand"
                ),
            )

    engine.observers.append(observe)
    arn = sfn.start_execution(stateMachineArn=machine, name="played", input=script.input)[
        "executionArn"
    ]
    until = aws.clock.now() + timedelta(days=1)
    while timeline.step(until):
        pass
    return played(sfn.describe_execution(executionArn=arn), events, player, aws.gate)


def result_of_invoke(answer: FunctionAnswer) -> Result:
    """https://docs.aws.amazon.com/step-functions/latest/dg/connect-lambda.html."""
    match answer:
        case Mapping():
            return Done({"ExecutedVersion": "$LATEST", "Payload": dict(answer), "StatusCode": 200})
        case Raises():
            return Failed(answer.kind, json.dumps(answer.payload))
        case Refuses():
            details = (
                f"Service: AWSLambda; Status Code: {answer.status}; Error Code: {answer.code};"
                f" Request ID: {answer.request_id}; Proxy: null"
            )
            return Failed(f"Lambda.{answer.code}", f"{answer.message} ({details})")
