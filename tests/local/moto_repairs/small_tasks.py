"""A small task definition and its tasks, in moto's ECS."""

from typing import Any

from tests.local.support import eventually

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


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
    (task,) = ecs.run_task(
        cluster="jobs", taskDefinition="small", launchType="FARGATE", **overrides
    )["tasks"]
    return str(task["taskArn"])


def task(ecs: Any, arn: str) -> dict[str, Any]:
    (found,) = ecs.describe_tasks(cluster="jobs", tasks=[arn])["tasks"]
    return dict(found)


def stopped(ecs: Any, arn: str) -> dict[str, Any]:
    eventually(lambda: task(ecs, arn)["lastStatus"] == "STOPPED", "the task stops")
    return task(ecs, arn)
