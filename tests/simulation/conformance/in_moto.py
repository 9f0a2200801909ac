"""Plays a script in moto's interpreter, with the repairs of the embedded AWS.

moto's backend is called in this process, and its AWS clients are scripted where
`longhaul/local/moto_repairs/sfn.py` hooks them: there is no server and no process of a
function. Waits and pauses before retries take no time.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from io import BytesIO
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import botocore.session
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from longhaul.local.moto_repairs import sfn as sfn_repairs
from longhaul.local.moto_repairs import sfn_sync as sfn_sync_repairs
from longhaul.local.moto_repairs.patching import Patches
from simulation.aws.cloud import FakeAws
from simulation.aws.service import REGION, client_error
from tests.local.support import eventually
from tests.patience import DEADLINE_S
from tests.simulation.conformance.played import Played, played
from tests.simulation.conformance.scripts import (
    DEFINITION,
    FunctionAnswer,
    Player,
    Raises,
    Refuses,
    Script,
)

ROLE_ARN = "arn:aws:iam::123456789012:role/any"
LONG_WAIT_S = 600
"""Waits of this length last until they are interrupted; shorter ones end at once."""


@contextmanager
def repaired_moto() -> Iterator[Callable[[Script], Played]]:
    """A function that plays scripts, one after the other."""
    patches, log = Patches(), logging.getLogger("moto.stepfunctions")
    level = log.level
    log.setLevel(logging.CRITICAL)  # moto logs each caught error with the whole definition
    try:
        for repair in (
            sfn_repairs.errors,
            sfn_repairs.interrupts,
            sfn_repairs.parameters,
            sfn_repairs.parse_once,
            sfn_repairs.start_stop,
            sfn_repairs.threads,
        ):
            repair(patches)
        clients: dict[str, Any] = {}
        patches.replace(lambda_eval_utils, "boto_client_for", lambda service, **_: clients[service])
        sfn_sync_repairs.services(
            patches,
            lambda _region, service, _role: clients[service],
            tasks=lambda *end: clients["ecs"].on_task_end(*end),  # noqa: PLW0108 - it changes
        )
        patches.replace(sfn_repairs.Latch, "wait", _wait)
        patches.replace(WaitFunction, "_wait_interval", _wait_interval)
        backend = stepfunctions_parser_backends[DEFAULT_ACCOUNT_ID][REGION]
        machine = backend.create_state_machine("Longhaul", DEFINITION, ROLE_ARN)
        yield lambda script: _play(script, backend, machine.arn, clients)
    finally:
        sfn_repairs.stop_all_executions()
        patches.undo()
        moto_api_backend.reset()
        log.setLevel(level)


def _wait_interval(_function: Any, env: Any, wait_seconds: float) -> None:
    env.program_state_event.wait(wait_seconds)


def _wait(latch: threading.Event, timeout: float | None = None) -> bool:
    return threading.Event.wait(
        latch, 0 if timeout is not None and timeout < LONG_WAIT_S else timeout
    )


def _play(script: Script, backend: Any, machine_arn: str, clients: dict[str, Any]) -> Played:
    aws = FakeAws()
    player = Player(script, aws)
    clients |= {"lambda": LambdaClient(player), "ecs": EcsClient(aws)}
    before = set(threading.enumerate())
    execution = backend.start_execution(
        machine_arn, f"played-{len(backend._get_executions())}", script.input
    )

    def events() -> list[tuple[str, str]]:
        return list(_named(backend.get_execution_history(execution.exec_arn)["events"]))

    def await_entry(name: str) -> None:
        eventually(lambda: name in {state for _, state in events()}, f"{name} entered")

    if script.ends_in is not None:
        await_entry(script.ends_in)
        player.entered(script.ends_in)
    if script.stopped_in is not None:
        await_entry(script.stopped_in)
        execution.stop(datetime.now(UTC), "Operator", "by hand")
    eventually(lambda: execution.status != "RUNNING", "the execution ends")
    player.let_go()
    eventually(lambda: set(threading.enumerate()) <= before, "moto's threads end")
    return played(execution.to_describe_output(), events(), player, aws.gate)


def _named(events: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The events and their states; an event without one belongs to the previous event's state."""
    states = {0: ""}
    for event in events:
        details = (
            event.get("stateEnteredEventDetails") or event.get("stateExitedEventDetails") or {}
        )
        states[event["id"]] = details.get("name") or states[event["previousEventId"]]
        yield str(event["type"].value), states[event["id"]]


class LambdaClient:
    """The methods of boto3's client that moto calls."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - boto3's
        answers = SimpleQueue[FunctionAnswer]()
        self._player.invoke(FunctionName, json.loads(Payload), answers.put)
        match answer := answers.get(timeout=DEADLINE_S):
            case Raises():
                return {
                    "StatusCode": 200,
                    "FunctionError": "Unhandled",
                    "Payload": _stream(answer.payload),
                }
            case Refuses():
                error = client_error(answer.code, answer.message, "Invoke", status=answer.status)
                error.response["ResponseMetadata"]["RequestId"] = answer.request_id
                raise error
            case _:
                return {
                    "StatusCode": 200,
                    "ExecutedVersion": "$LATEST",
                    "Payload": _stream(dict(answer)),
                }


def _stream(payload: Any) -> BytesIO:
    return BytesIO(json.dumps(payload).encode())


class EcsClient:
    """The methods of boto3's client that moto and the repairs call."""

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self._waiting: dict[str, Callable[[], None]] = {}
        self.meta = SimpleNamespace(
            service_model=botocore.session.get_session().get_service_model("ecs")
        )
        aws.ecs.task_ended.append(lambda task: self._waiting.pop(task.arn, lambda: None)())

    def run_task(self, **arguments: Any) -> dict[str, Any]:
        return deepcopy(self._aws.ecs.run_task(**arguments))  # moto changes what it gets

    def describe_tasks(self, **arguments: Any) -> dict[str, Any]:
        return deepcopy(self._aws.ecs.describe_tasks(**arguments))

    def stop_task(self, **arguments: Any) -> dict[str, Any]:
        return self._aws.ecs.stop_task(**arguments)

    def on_task_end(self, arn: str, callback: Callable[[], None]) -> None:
        """Like `longhaul.local.ecs_driver.EcsDriver.on_end`."""
        self._waiting[arn] = callback
        (task,) = self._aws.ecs.describe_tasks(cluster=arn.split("/")[1], tasks=[arn])["tasks"]
        if task["lastStatus"] == "STOPPED":
            callback()
