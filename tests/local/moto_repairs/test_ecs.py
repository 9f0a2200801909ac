from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ecs.models import ecs_backends

from longhaul.local.ecs_driver import EcsDriver
from longhaul.local.moto_repairs import ecs as ecs_repairs
from tests.local.moto_repairs.small_tasks import register, run, stopped
from tests.local.support import REGION, Moto, mends


@mends(ecs_repairs.resources)
def test_fargate_container_needs_no_memory_of_its_own(ecs: Any, *, repaired: bool) -> None:
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


def test_overrides_reach_the_process(moto: Moto, ecs: Any, driver: EcsDriver) -> None:
    ecs_repairs.resources(moto.patches)
    ecs_repairs.tasks(moto.patches, driver)
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
