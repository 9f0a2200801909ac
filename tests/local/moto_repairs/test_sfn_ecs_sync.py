"""`sfn.parameters` and `sfn_sync.services`: from a state of a machine to a process.

Without the one, stock moto does not come as far as the other, so each is shown alone here. The
rules stand in `tests/fidelity/states.py`.
"""

import json
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import pytest

from longhaul.local.credentials import ADMINISTRATOR
from longhaul.local.ecs_driver import EcsDriver
from longhaul.local.moto_repairs import (
    ecs as ecs_repairs,
)
from longhaul.local.moto_repairs import (
    sfn as sfn_repairs,
)
from longhaul.local.moto_repairs import (
    sfn_sync as sfn_sync_repairs,
)
from tests.local.moto_repairs.conftest import EXECUTIONS
from tests.local.moto_repairs.small_tasks import SLEEP, register, stopped, task
from tests.local.support import Moto, eventually
from tests.patience import DEADLINE_S

RUN_TASK: dict[str, Any] = {
    "Type": "Task",
    "Resource": "arn:aws:states:::ecs:runTask.sync",
    "Parameters": {
        "Cluster": "jobs",
        "LaunchType": "FARGATE",
        "TaskDefinition.$": "States.Format('{}', $.family)",
        "Overrides": {
            "ContainerOverrides": [
                {
                    "Name": "job",
                    "Environment": [{"Name": "RUN", "Value.$": "States.Format('{}', $.run)"}],
                },
            ]
        },
    },
}

# With parameters that stock moto does not take.
WITH_TAGS = {
    **RUN_TASK,
    "Parameters": {
        "Cluster": "jobs",
        "CapacityProviderStrategy": [{"CapacityProvider": "FARGATE", "Weight": 1}],
        "TaskDefinition": "small",
        "Tags": [{"Key": "family", "Value.$": "$.family"}],
        "Overrides": RUN_TASK["Parameters"]["Overrides"],
    },
}


@pytest.fixture
def sync(moto: Moto, driver: EcsDriver) -> Callable[..., None]:
    """Applies every repair that tasks need, with that of `.sync` or without."""

    def apply(*, repaired: bool = True) -> None:
        moto.apply(ecs_repairs.resources, partial(ecs_repairs.tasks, driver=driver), *EXECUTIONS)
        client_for = sfn_repairs.clients(moto.patches, moto.endpoint, lambda _: ADMINISTRATOR)
        if repaired:
            sfn_sync_repairs.services(moto.patches, client_for, tasks=driver.on_end)

    return apply


def test_parameters_reach_ecs_under_its_names(
    driver: EcsDriver, ecs: Any, sync: Callable[..., None], machine: Callable[..., Any]
) -> None:
    """Stock moto refuses them (`tests/fidelity/states.py`)."""
    sync()
    register(ecs, "import os; print(os.environ['RUN'])")

    end = machine(Run={**WITH_TAGS, "End": True}).run(family="small", run=1763680000000)

    arn = json.loads(end["output"])["TaskArn"]
    assert driver.log_of(arn).read_text() == "1763680000000\n"
    (task,) = ecs.describe_tasks(cluster="jobs", tasks=[arn], include=["TAGS"])["tasks"]
    assert task["tags"] == [{"key": "family", "value": "small"}]


def test_execution_that_is_stopped_while_its_task_starts_stops_the_task(
    ecs: Any,
    sync: Callable[..., None],
    machine: Callable[..., Any],
    driver: EcsDriver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync()
    register(ecs, SLEEP)
    running = machine(Run={**RUN_TASK, "End": True})
    run, started = driver.run, Event()

    def stop_meanwhile(*arguments: Any) -> None:
        started.wait(DEADLINE_S)
        run(*arguments)
        running.client.stop_execution(executionArn=execution)

    monkeypatch.setattr(driver, "run", stop_meanwhile)
    execution = running.start(family="small", run=1)
    started.set()
    (arn,) = eventually(lambda: ecs.list_tasks(cluster="jobs")["taskArns"], "the task is there")

    assert stopped(ecs, arn)["stopCode"] == "UserInitiated"


def test_stopped_execution_stops_its_task(
    ecs: Any, sync: Callable[..., None], machine: Callable[..., Any], *, repaired: bool
) -> None:
    sync(repaired=repaired)
    register(ecs, SLEEP)
    running = machine(Run={**RUN_TASK, "End": True})
    execution = running.start(family="small", run=1)
    (arn,) = eventually(lambda: ecs.list_tasks(cluster="jobs")["taskArns"], "the task is there")
    eventually(lambda: task(ecs, arn)["lastStatus"] == "RUNNING", "the task runs")

    running.client.stop_execution(executionArn=execution)

    if repaired:
        assert stopped(ecs, arn)["stopCode"] == "UserInitiated"
    else:
        assert task(ecs, arn)["desiredStatus"] == "RUNNING"
