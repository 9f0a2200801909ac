"""A state machine in moto's interpreter, and a cluster whose tasks are processes."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.core.config import default_user_config

from longhaul.local.ecs_driver import EcsDriver
from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto, ecs_driver, error_code, eventually

ROLE_ARN = "arn:aws:iam::123456789012:role/any"
EXECUTIONS = (
    sfn_repairs.errors,
    sfn_repairs.interrupts,
    sfn_repairs.parameters,
    sfn_repairs.start_stop,
)
"""What an execution needs that waits for a task or for a job run."""


@dataclass(frozen=True)
class Machine:
    client: Any
    arn: str

    def start(self, name: str = "run", **given: Any) -> str:
        return str(
            self.client.start_execution(
                stateMachineArn=self.arn, name=name, input=json.dumps(given)
            )["executionArn"]
        )

    def describe(self, execution: str) -> dict[str, Any]:
        return dict(self.client.describe_execution(executionArn=execution))

    def status(self, execution: str) -> str:
        """The status from the list: stock moto cannot describe an output with a time in it."""
        listed = self.client.list_executions(stateMachineArn=self.arn)["executions"]
        return str(next(each["status"] for each in listed if each["executionArn"] == execution))

    def events(self, execution: str) -> list[str]:
        """The types of the events in its history."""
        return [
            each["type"]
            for each in self.client.get_execution_history(executionArn=execution)["events"]
        ]

    def end_of(self, execution: str) -> dict[str, Any]:
        eventually(lambda: self.status(execution) != "RUNNING", f"{execution} ends")
        return self.describe(execution)

    def run(self, **given: Any) -> dict[str, Any]:
        return self.end_of(self.start(**given))


@pytest.fixture
def machine(moto: Moto) -> Callable[..., Machine]:
    """`machine(State=…, …)` makes a machine of these states that starts at the first."""
    # moto's own switch for the interpreter; no repair is about it.
    moto.patches.replace_item(default_user_config, "stepfunctions", {"execute_state_machine": True})

    def make(**states: Any) -> Machine:
        client = moto.client("stepfunctions")
        definition = json.dumps({"StartAt": next(iter(states)), "States": states})
        arn = client.create_state_machine(name="machine", definition=definition, roleArn=ROLE_ARN)[
            "stateMachineArn"
        ]
        return Machine(client, arn)

    return make


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch, *, repaired: bool) -> Callable[..., list[str]]:
    """`race(owner, name, act)`: what two are answered who act at once, "ok" or an error's code.

    They meet in that method of moto's, as nothing but a repair prevents.
    """

    def run(owner: type, name: str, act: Callable[[int], object]) -> list[str]:
        both_met = Barrier(2)
        # With stock moto the other one comes, however late. With the repair it never does.
        patience_s = 0.3 if repaired else 30
        stock = getattr(owner, name)

        def met(*args: Any, **named: Any) -> Any:
            found = stock(*args, **named)
            with suppress(BrokenBarrierError):
                both_met.wait(patience_s)
            return found

        def answer(number: int) -> str:
            try:
                act(number)
            except ClientError as error:
                return error_code(error)
            return "ok"

        with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
            patch.setattr(owner, name, met)
            return sorted(pool.map(answer, range(2)))

    return run


@pytest.fixture
def driver(moto: Moto, tmp_path: Path) -> Iterator[EcsDriver]:
    with ecs_driver(moto.endpoint, work_dir=tmp_path, cwd=tmp_path) as made:
        yield made


@pytest.fixture
def ecs(moto: Moto) -> Any:
    client = moto.client("ecs")
    client.create_cluster(clusterName="jobs")
    return client
