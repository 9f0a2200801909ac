"""A job on Fargate: one ecs:runTask. Imports no CDK."""

from collections.abc import Mapping

from longhaul.engines.fargate.ends import CONTAINER, FARGATE
from longhaul.engines.states import JobStates, run_job


def fargate_states(
    run_task: Mapping[str, object],
    task_families: str,
    task_roles: Mapping[str, str],
    partition: str,
) -> JobStates:
    """The states of the engine.

    Args:
        run_task: Where the task runs: `Cluster` and `NetworkConfiguration` of ecs:RunTask.
        task_families: The prefix of the task definitions' families; the input's `size` follows it.
        task_roles: By stage, the ARN of the role of its tasks.
        partition: The AWS partition of the service integration's ARN.
    """
    parameters = {
        **run_task,
        # On demand or Spot, as the attempt's claim said.
        "CapacityProviderStrategy": [{"CapacityProvider.$": "$.capacity", "Weight": 1}],
        # The family, never a revision: a deploy would make it inactive while executions still name
        # it.
        "TaskDefinition.$": f"States.Format('{task_families}-{{}}', $.size)",
        # For Cost Explorer, and with what the platform team gives the stack.
        "PropagateTags": "TASK_DEFINITION",
        "Tags": [
            {"Key": "longhaul:stack", "Value": task_families},
            {"Key": "longhaul:stage", "Value.$": "$.stage"},
            {"Key": "longhaul:job", "Value.$": "$.job_tag"},
            {"Key": "longhaul:label", "Value.$": "$.label_tag"},
        ],
        "Overrides": {
            # The definition names none: a task whose stage is not said may do nothing.
            "TaskRoleArn.$": "$.rights.task_role",
            "ContainerOverrides": [
                {
                    "Name": CONTAINER,
                    "Environment": [
                        {"Name": "LONGHAUL_KEY", "Value.$": "$.key"},
                        {"Name": "LONGHAUL_RUN", "Value.$": "$.run"},
                        {"Name": "LONGHAUL_ATTEMPT", "Value.$": "$.attempt"},
                        # Whether it needs a JVM, which boots before the row is read.
                        {"Name": "LONGHAUL_JOB", "Value.$": "$.job"},
                    ],
                }
            ],
        },
    }
    resource = f"arn:{partition}:states:::ecs:runTask.sync"
    return JobStates(
        engine=FARGATE.name,
        start="RunOnFargate",
        states={"RunOnFargate": run_job(resource, parameters)},
        rights={stage: {"task_role": role} for stage, role in task_roles.items()},
    )
