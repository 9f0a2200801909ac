"""`ecs_resources`, `ecs_tasks`, `sfn_parameters`, `sfn_ecs_sync`: from a state of the machine down to a process."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ecs.models import ecs_backends

from local.ecs_driver import EcsDriver
from local.http_services import HttpServices
from local.log_shipper import LogShipper
from local.moto_repairs import (
    ecs_resources,
    ecs_tasks,
    sfn_clients,
    sfn_ecs_sync,
    sfn_errors,
    sfn_interrupts,
    sfn_parameters,
    sfn_start_stop,
)
from tests.local.support import ACCOUNT, DEADLINE_S, REGION, Moto, branch, eventually

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def driver(moto: Moto, tmp_path: Path) -> Iterator[EcsDriver]:
    services = HttpServices()
    shipper = LogShipper(ACCOUNT, REGION)
    made = EcsDriver(
        endpoint=moto.endpoint, region=REGION, work_dir=tmp_path, services=services, cwd=tmp_path, shipper=shipper
    )
    yield made
    made.close()
    shipper.close()
    services.close()


@pytest.fixture
def ecs(moto: Moto) -> Any:
    client = moto.client("ecs")
    client.create_cluster(clusterName="jobs")
    return client


def register(ecs: Any, code: str = "", *, container: dict[str, Any] | None = None) -> None:
    ecs.register_task_definition(
        family="small",
        containerDefinitions=[
            {
                "name": "job",
                "image": "any",
                "command": ["python", "-c", code],
                "memory": 64,
                "stopTimeout": 2,
                **(container or {}),
            }
        ],
    )


def run(ecs: Any, **overrides: Any) -> str:
    (task,) = ecs.run_task(cluster="jobs", taskDefinition="small", launchType="FARGATE", **overrides)["tasks"]
    return str(task["taskArn"])


def task(ecs: Any, arn: str) -> dict[str, Any]:
    (found,) = ecs.describe_tasks(cluster="jobs", tasks=[arn])["tasks"]
    return dict(found)


def stopped(ecs: Any, arn: str) -> dict[str, Any]:
    eventually(lambda: task(ecs, arn)["lastStatus"] == "STOPPED", "the task stops")
    return task(ecs, arn)


def test_fargate_container_needs_no_memory_of_its_own(moto: Moto, ecs: Any, *, repaired: bool) -> None:
    if repaired:
        ecs_resources.apply(moto.patches)
    # As CloudFormation registers it: memory is the task's.
    backend: Any = ecs_backends["123456789012"][REGION]
    backend.register_task_definition(
        family="small", container_definitions=[{"name": "job", "image": "any"}], memory="4096"
    )

    if repaired:
        assert run(ecs)
    else:
        with pytest.raises(ClientError):
            run(ecs)


def test_task_has_the_exit_code_of_its_process(moto: Moto, ecs: Any, driver: EcsDriver, *, repaired: bool) -> None:
    ecs_resources.apply(moto.patches)
    if repaired:
        ecs_tasks.apply(moto.patches, driver)
    register(ecs, "raise SystemExit(65)")

    end = stopped(ecs, run(ecs))

    assert end["containers"][0]["exitCode"] == (65 if repaired else 0)
    if repaired:
        assert (end["stopCode"], end["desiredStatus"]) == ("EssentialContainerExited", "STOPPED")
        assert end["createdAt"] <= end["startedAt"] <= end["stoppedAt"]


def test_overrides_reach_the_process(moto: Moto, ecs: Any, driver: EcsDriver) -> None:
    ecs_resources.apply(moto.patches)
    ecs_tasks.apply(moto.patches, driver)
    register(
        ecs,
        "import os; print(os.environ['FIXED'], os.environ['GIVEN'])",
        container={"environment": [{"name": "FIXED", "value": "a"}, {"name": "GIVEN", "value": "b"}]},
    )

    arn = run(
        ecs, overrides={"containerOverrides": [{"name": "job", "environment": [{"name": "GIVEN", "value": "c"}]}]}
    )

    stopped(ecs, arn)
    assert driver.log_of(arn).read_text() == "a c\n"


def test_override_of_an_unknown_container_is_refused(moto: Moto, ecs: Any, driver: EcsDriver) -> None:
    ecs_resources.apply(moto.patches)
    ecs_tasks.apply(moto.patches, driver)
    register(ecs)

    with pytest.raises(ClientError, match="not a container in the TaskDefinition"):
        run(ecs, overrides={"containerOverrides": [{"name": "other"}]})
    assert ecs.list_tasks(cluster="jobs")["taskArns"] == []


def test_stop_ends_the_process_and_says_who_did(moto: Moto, ecs: Any, driver: EcsDriver) -> None:
    ecs_resources.apply(moto.patches)
    ecs_tasks.apply(moto.patches, driver)
    register(ecs, SLEEP)
    arn = run(ecs)
    eventually(lambda: driver.log_of(arn).exists() and driver.log_of(arn).read_text(), "the process is up")

    assert ecs.stop_task(cluster="jobs", task=arn, reason="enough")["task"]["desiredStatus"] == "STOPPED"

    end = stopped(ecs, arn)
    assert (end["stopCode"], end["stoppedReason"], end["containers"][0]["exitCode"]) == ("UserInitiated", "enough", 143)


def test_unknown_task_is_a_failure_to_describe_and_an_error_to_stop(
    moto: Moto, ecs: Any, driver: EcsDriver, *, repaired: bool
) -> None:
    if repaired:
        ecs_tasks.apply(moto.patches, driver)
    unknown = f"arn:aws:ecs:{REGION}:123456789012:task/jobs/none"

    failures = ecs.describe_tasks(cluster="jobs", tasks=[unknown])["failures"]
    with pytest.raises(ClientError) as refused:
        ecs.stop_task(cluster="jobs", task=unknown)

    assert failures == ([{"arn": unknown, "reason": "MISSING"}] if repaired else [])
    assert (refused.value.response["Error"]["Code"] == "InvalidParameterException") is repaired


RUN_TASK = {
    "Type": "Task",
    "Resource": "arn:aws:states:::ecs:runTask.sync",
    "Parameters": {
        "Cluster": "jobs",
        "CapacityProviderStrategy": [{"CapacityProvider": "FARGATE", "Weight": 1}],
        "TaskDefinition.$": "States.Format('{}', $.family)",
        "Overrides": {
            "ContainerOverrides": [
                {"Name": "job", "Environment": [{"Name": "RUN", "Value.$": "States.Format('{}', $.run)"}]},
            ]
        },
    },
}


@pytest.fixture
def sync(moto: Moto, driver: EcsDriver) -> Callable[..., None]:
    """Everything that runs tasks, with the repair of `.sync` or without."""

    def apply(*, repaired: bool = True) -> None:
        ecs_resources.apply(moto.patches)
        ecs_tasks.apply(moto.patches, driver)
        sfn_clients.apply(moto.patches, moto.endpoint)
        sfn_errors.apply(moto.patches)
        sfn_interrupts.apply(moto.patches)
        sfn_parameters.apply(moto.patches)
        sfn_start_stop.apply(moto.patches)
        if repaired:
            sfn_ecs_sync.apply(moto.patches, driver.on_end)

    return apply


def test_parameters_reach_ecs_under_its_names(
    moto: Moto, driver: EcsDriver, ecs: Any, machine: Callable[..., Any], *, repaired: bool
) -> None:
    ecs_resources.apply(moto.patches)
    ecs_tasks.apply(moto.patches, driver)
    sfn_clients.apply(moto.patches, moto.endpoint)
    sfn_interrupts.apply(moto.patches)
    sfn_ecs_sync.apply(moto.patches, driver.on_end)
    if repaired:
        sfn_parameters.apply(moto.patches)
    register(ecs, "import os; print(os.environ['RUN'])")

    end = machine(Run={**RUN_TASK, "End": True}).run(family="small", run=1763680000000)

    assert end["status"] == ("SUCCEEDED" if repaired else "FAILED")
    if repaired:
        assert driver.log_of(json.loads(end["output"])["TaskArn"]).read_text() == "1763680000000\n"


def test_non_zero_exit_fails_the_state_with_the_task_as_cause(
    ecs: Any, sync: Callable[..., None], machine: Callable[..., Any], *, repaired: bool
) -> None:
    sync(repaired=repaired)
    register(ecs, "raise SystemExit(3)")

    running = machine(Run={**RUN_TASK, "End": True})
    execution = running.start(family="small", run=1)

    eventually(lambda: running.status(execution) == ("FAILED" if repaired else "SUCCEEDED"), "the execution ends")
    if repaired:
        end = running.describe(execution)
        cause = json.loads(end["cause"])
        assert end["error"] == "States.TaskFailed"
        assert (cause["Containers"][0]["ExitCode"], cause["StopCode"]) == (3, "EssentialContainerExited")
        assert cause["StartedBy"] == "AWS Step Functions"
        assert isinstance(cause["StoppedAt"], int)


def test_command_that_cannot_start_fails_the_state(
    ecs: Any, sync: Callable[..., None], machine: Callable[..., Any]
) -> None:
    sync()
    register(ecs, container={"command": ["no-such-command"]})

    end = machine(Run={**RUN_TASK, "End": True}).run(family="small", run=1)

    assert json.loads(end["cause"])["StopCode"] == "TaskFailedToStart"
    assert "ExitCode" not in json.loads(end["cause"])["Containers"][0]


def test_execution_stopped_while_its_task_starts_stops_it(
    ecs: Any,
    sync: Callable[..., None],
    machine: Callable[..., Any],
    driver: EcsDriver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync(repaired=True)
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

    assert running.describe(execution)["status"] == "ABORTED"
    if repaired:
        assert stopped(ecs, arn)["stopCode"] == "UserInitiated"
    else:
        assert task(ecs, arn)["desiredStatus"] == "RUNNING"


def test_task_of_a_sibling_branch_is_stopped_when_a_branch_fails(
    ecs: Any, sync: Callable[..., None], machine: Callable[..., Any]
) -> None:
    sync()
    register(ecs, SLEEP)
    beat = branch(Wait={"Type": "Wait", "Seconds": 1, "Next": "Kill"}, Kill={"Type": "Fail", "Error": "JobStalled"})
    end = machine(
        Both={
            "Type": "Parallel",
            "Branches": [
                branch(
                    Run={**RUN_TASK, "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Settle"}], "Next": "Settle"},
                    Settle={"Type": "Pass", "End": True},
                ),
                beat,
            ],
            "Catch": [{"ErrorEquals": ["JobStalled"], "ResultPath": "$.error", "Next": "SettleKilled"}],
            "End": True,
        },
        SettleKilled={"Type": "Pass", "End": True},
    ).run(family="small", run=1)

    (arn,) = (
        ecs.list_tasks(cluster="jobs")["taskArns"]
        or ecs.list_tasks(cluster="jobs", desiredStatus="STOPPED")["taskArns"]
    )
    assert (end["status"], json.loads(end["output"])["error"]["Error"]) == ("SUCCEEDED", "JobStalled")
    assert stopped(ecs, arn)["stoppedReason"] == "Stopped by AWS Step Functions"


def test_timeout_of_the_state_leaves_its_task_running(
    ecs: Any, sync: Callable[..., None], machine: Callable[..., Any]
) -> None:
    sync()
    register(ecs, SLEEP)

    end = machine(Run={**RUN_TASK, "TimeoutSecondsPath": "$.timeout_s", "End": True}).run(
        family="small", run=1, timeout_s=1
    )

    (arn,) = ecs.list_tasks(cluster="jobs")["taskArns"]
    assert end["error"] == "States.Timeout"
    assert task(ecs, arn)["desiredStatus"] == "RUNNING"


@pytest.mark.usefixtures("ecs")
def test_error_of_run_task_has_its_name_and_can_be_caught(
    sync: Callable[..., None], machine: Callable[..., Any], *, repaired: bool
) -> None:
    sync(repaired=repaired)
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]

    end = machine(Run={**RUN_TASK, "Catch": catch, "End": True}, Caught={"Type": "Pass", "End": True}).run(
        family="none", run=1
    )

    assert end["status"] == ("SUCCEEDED" if repaired else "FAILED")
    if repaired:
        assert json.loads(end["output"])["Error"] == "ECS.ClientException"
