"""`ecs_resources` and `ecs_tasks`: a task is a process."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ecs.models import ecs_backends

from longhaul.local.ecs_driver import EcsDriver
from longhaul.local.moto_repairs import (
    ecs_resources,
    ecs_tasks,
)
from tests.local.moto_repairs.small_tasks import SLEEP, register, run, stopped
from tests.local.support import REGION, Moto, error_code, eventually


def test_fargate_container_needs_no_memory_of_its_own(
    moto: Moto, ecs: Any, *, repaired: bool
) -> None:
    if repaired:
        ecs_resources.apply(moto.patches)
    # CloudFormation registers the memory of the task only.
    backend: Any = ecs_backends["123456789012"][REGION]
    backend.register_task_definition(
        family="small", container_definitions=[{"name": "job", "image": "any"}], memory="4096"
    )

    if repaired:
        assert run(ecs)
    else:
        with pytest.raises(ClientError):
            run(ecs)


def test_task_has_the_exit_code_of_its_process(
    moto: Moto, ecs: Any, driver: EcsDriver, *, repaired: bool
) -> None:
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
        container={
            "environment": [{"name": "FIXED", "value": "a"}, {"name": "GIVEN", "value": "b"}]
        },
    )

    arn = run(
        ecs,
        overrides={
            "containerOverrides": [
                {"name": "job", "environment": [{"name": "GIVEN", "value": "c"}]}
            ]
        },
    )

    stopped(ecs, arn)
    assert driver.log_of(arn).read_text() == "a c\n"


def test_override_of_an_unknown_container_is_refused(
    moto: Moto, ecs: Any, driver: EcsDriver
) -> None:
    ecs_resources.apply(moto.patches)
    ecs_tasks.apply(moto.patches, driver)
    register(ecs)

    with pytest.raises(ClientError, match="not a container in the TaskDefinition"):
        run(ecs, overrides={"containerOverrides": [{"name": "other"}]})
    assert ecs.list_tasks(cluster="jobs")["taskArns"] == []


def test_stop_ends_the_process_and_is_recorded_with_its_reason(
    moto: Moto, ecs: Any, driver: EcsDriver
) -> None:
    ecs_resources.apply(moto.patches)
    ecs_tasks.apply(moto.patches, driver)
    register(ecs, SLEEP)
    arn = run(ecs)
    eventually(
        lambda: driver.log_of(arn).exists() and driver.log_of(arn).read_text(), "the process is up"
    )

    assert (
        ecs.stop_task(cluster="jobs", task=arn, reason="enough")["task"]["desiredStatus"]
        == "STOPPED"
    )

    end = stopped(ecs, arn)
    assert (end["stopCode"], end["stoppedReason"], end["containers"][0]["exitCode"]) == (
        "UserInitiated",
        "enough",
        143,
    )


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
    assert (error_code(refused.value) == "InvalidParameterException") is repaired
