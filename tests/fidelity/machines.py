"""Executions of small state machines, in the fakes and in the embedded AWS."""

import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from simulation.aws.platform.timeline import Timeline
from simulation.aws.stepfunctions.interpreter import Done, Failed, Interpreter, Result
from simulation.aws.stepfunctions.sync import RunTaskSync
from tests.contract.conftest import Aws
from tests.patience import DEADLINE_S

ROLE_ARN = "arn:aws:iam::123456789012:role/x"
INVOKE = "arn:aws:states:::lambda:invoke"
RUN_TASK = "arn:aws:states:::ecs:runTask.sync"
CALL: Mapping[str, Any] = {
    "Type": "Task",
    "Resource": INVOKE,
    "Parameters": {"FunctionName": "f", "Payload.$": "$"},
    "TimeoutSeconds": 60,
    "End": True,
}


@dataclass(frozen=True)
class Raises:
    """The function raises."""

    kind: str
    message: str = "no luck"

    @property
    def payload(self) -> dict[str, str]:
        return {"errorType": self.kind, "errorMessage": self.message}


Function = Callable[[Any], Mapping[str, Any] | Raises | None]
"""From a payload to the answer; None: there is no answer before the execution has ended."""


@dataclass
class Ended:
    """An execution that has ended: DescribeExecution's answer, and what its function was given."""

    described: Mapping[str, Any]
    payloads: list[Any]

    @property
    def end(self) -> str:
        """The error, or the status if there is none."""
        return str(self.described.get("error") or self.described["status"])

    @property
    def output(self) -> Any:
        return json.loads(self.described["output"])


def execute(
    aws: Aws,
    states: Mapping[str, Any],
    given: object = None,
    *,
    function: Function = lambda _payload: {},
    stopped_at: str | None = None,
) -> Ended:
    """Run an execution of these states to its end.

    Args:
        aws: The fakes or the embedded AWS.
        states: The first one is where the machine starts.
        given: The input.
        function: What `INVOKE` invokes.
        stopped_at: The execution is stopped after the first event of this type.
    """
    sfn = aws.client("stepfunctions")
    definition = json.dumps({"StartAt": next(iter(states)), "States": states})
    machine = sfn.create_state_machine(name="M", definition=definition, roleArn=ROLE_ARN)
    run = _in_fake if aws.fake else _in_moto
    return run(aws, machine["stateMachineArn"], json.dumps(given), function, stopped_at)


def _in_fake(
    aws: Aws, machine_arn: str, given: str, function: Function, stopped_at: str | None
) -> Ended:
    assert aws.fake
    sfn, timeline = aws.fake.stepfunctions, Timeline(aws.fake.clock)
    payloads: list[Any] = []

    def invoke(parameters: dict[str, Any], done: Callable[..., None]) -> Any:
        payloads.append(parameters["Payload"])
        if (answer := function(parameters["Payload"])) is not None:
            done(_result_of_invoke(answer))
        return SimpleNamespace(cancel=lambda: None)

    def observe(execution: Any, event: str, _state: str) -> None:
        if event == stopped_at:
            timeline.after(0, lambda: sfn.stop_execution(executionArn=execution.arn))

    sfn.engine = engine = Interpreter(
        timeline,
        sfn,
        {INVOKE: invoke, RUN_TASK: RunTaskSync(timeline, aws.fake.ecs)},
        random.Random(1),
    )
    engine.observers.append(observe)
    arn = sfn.start_execution(stateMachineArn=machine_arn, name="x", input=given)["executionArn"]
    until = aws.fake.clock.now() + timedelta(days=1)
    while sfn.executions[arn].is_running and timeline.step(until):
        pass
    # Its tasks stop a moment later, and are shown for an hour.
    until = aws.fake.clock.now() + timedelta(minutes=1)
    while timeline.step(until):
        pass
    return Ended(sfn.describe_execution(executionArn=arn), payloads)


def _result_of_invoke(answer: Mapping[str, Any] | Raises) -> Result:
    """https://docs.aws.amazon.com/step-functions/latest/dg/connect-lambda.html."""
    if isinstance(answer, Raises):
        return Failed(answer.kind, json.dumps(answer.payload))
    return Done({"ExecutedVersion": "$LATEST", "Payload": dict(answer), "StatusCode": 200})


def _in_moto(
    aws: Aws, machine_arn: str, given: str, function: Function, stopped_at: str | None
) -> Ended:
    # The engines of moto alone need these (see `conftest.py`).
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import (  # noqa: PLC0415
        lambda_eval_utils,
    )

    from longhaul.local.moto_repairs.patching import Patches  # noqa: PLC0415
    from tests.local.support import eventually  # noqa: PLC0415

    sfn, patches, over = aws.client("stepfunctions"), Patches(), threading.Event()
    payloads: list[Any] = []

    def invoke(FunctionName: str, Payload: bytes) -> Mapping[str, Any]:  # noqa: N803 - boto3's
        del FunctionName
        payloads.append(json.loads(Payload))
        answered = function(payloads[-1])
        if answered is None:
            over.wait(DEADLINE_S)
        if isinstance(answered, Raises):
            body = BytesIO(json.dumps(answered.payload).encode())
            return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": body}
        body = BytesIO(json.dumps(answered or {}).encode())
        return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": body}

    client = SimpleNamespace(invoke=invoke)
    patches.replace(lambda_eval_utils, "boto_client_for", lambda *_, **__: client)
    try:
        arn = sfn.start_execution(stateMachineArn=machine_arn, name="x", input=given)[
            "executionArn"
        ]

        def events() -> list[str]:
            history = sfn.get_execution_history(executionArn=arn)
            return [each["type"] for each in history["events"]]

        if stopped_at is not None:
            eventually(lambda: stopped_at in events(), stopped_at)
            sfn.stop_execution(executionArn=arn)
        eventually(
            lambda: sfn.describe_execution(executionArn=arn)["status"] != "RUNNING",
            "the execution ends",
        )
        over.set()
        return Ended(sfn.describe_execution(executionArn=arn), payloads)
    finally:
        over.set()
        patches.undo()
