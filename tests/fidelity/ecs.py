"""Rules of ECS: which tasks start, how they end, and what is shown of them."""

from typing import Any

from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Task
from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Repair, Rules
from tests.fidelity.sqs import REAL_TIME

CLUSTER, FAMILY = "jobs", "small"
MISSING = f"arn:aws:ecs:us-east-1:123456789012:task/{CLUSTER}/{'0' * 32}"
RUN = "API_RunTask"
RULES = Rules()


class Program:
    """What runs in the tasks of the fake: it exits with the code at once, or on SIGTERM."""

    def __init__(self, aws: FakeAws, exit_code: int | None) -> None:
        self._ecs = aws.ecs
        self._exit_code = exit_code

    def launched(self, task: Task) -> None:
        self._ecs.run(task)
        if self._exit_code is not None:
            self._end(task, self._exit_code)

    def terminated(self, task: Task) -> None:
        self._end(task, 143)

    def _end(self, task: Task, exit_code: int) -> None:
        reason = "Essential container in task exited"
        self._ecs.end(
            task, stop_code="EssentialContainerExited", reason=reason, exit_code=exit_code
        )


def cluster(aws: Aws, exit_code: int | None = None) -> Any:
    """ECS with a task definition whose tasks exit with the code. None: they run on."""
    if aws.fake:
        aws.fake.ecs.containers = Program(aws.fake, exit_code)
    ecs = aws.client("ecs")
    ecs.create_cluster(clusterName=CLUSTER)
    register(ecs, exit_code)
    return ecs


def register(ecs: Any, exit_code: int | None = None) -> str:
    """The ARN of another revision."""
    code = "import time; time.sleep(600)" if exit_code is None else f"raise SystemExit({exit_code})"
    container = {
        "name": "job",
        "image": "any",
        "command": ["python", "-c", code],
        "memory": 64,
        "stopTimeout": 2,
    }
    made = ecs.register_task_definition(family=FAMILY, containerDefinitions=[container])
    return str(made["taskDefinition"]["taskDefinitionArn"])


def run(ecs: Any, **more: Any) -> dict[str, Any]:
    """The task that RunTask starts."""
    given = {"cluster": CLUSTER, "taskDefinition": FAMILY, "launchType": "FARGATE", **more}
    (task,) = ecs.run_task(**given)["tasks"]
    return dict(task)


def refused_run(aws: Aws, **more: Any) -> str:
    ecs = cluster(aws)
    return code_of(lambda: run(ecs, **more))


def shown(aws: Aws, ecs: Any, arn: str, status: str = "STOPPED") -> dict[str, Any]:
    """The task once it has the status."""
    for _ in range(600):
        (task,) = ecs.describe_tasks(cluster=CLUSTER, tasks=[arn])["tasks"]
        if task["lastStatus"] == status:
            break
        aws.clock.sleep(0.05)
    return dict(task)


def environment(**variables: str) -> dict[str, Any]:
    given = [{"name": name, "value": value} for name, value in variables.items()]
    return {"containerOverrides": [{"name": "job", "environment": given}]}


@RULES.add(
    "EssentialContainerExited, 65, in order",
    "task-lifecycle-explanation",
    repair=Repair("ecs.tasks", "None, 0, without times"),
)
def end_of_a_task_that_exits_with_65(aws: Aws) -> str:
    ecs = cluster(aws, 65)
    task = shown(aws, ecs, run(ecs)["taskArn"])
    times: list[Any] = [task.get(name) for name in ("createdAt", "startedAt", "stoppedAt")]
    order = "in order" if None not in times and times == sorted(times) else "without times"
    return f"{task.get('stopCode')}, {task['containers'][0].get('exitCode')}, {order}"


@RULES.add("UserInitiated, Longhaul: stalled, 143", "API_StopTask")
def end_of_a_task_that_is_stopped(aws: Aws) -> str:
    ecs = cluster(aws)
    arn = run(ecs)["taskArn"]
    shown(aws, ecs, arn, "RUNNING")
    for reason in ("Longhaul: stalled", "again"):
        ecs.stop_task(cluster=CLUSTER, task=arn, reason=reason)
    task = shown(aws, ecs, arn)
    return f"{task['stopCode']}, {task['stoppedReason']}, {task['containers'][0].get('exitCode')}"


@RULES.add("MISSING", "API_DescribeTasks", repair=Repair("ecs.tasks", ""))
def description_of_an_unknown_task(aws: Aws) -> str:
    ecs = cluster(aws)
    answer = ecs.describe_tasks(cluster=CLUSTER, tasks=[MISSING])
    return ", ".join(failure["reason"] for failure in answer["failures"])


@RULES.add("InvalidParameterException", "API_StopTask", repair=Repair("ecs.tasks", "500"))
def stop_of_an_unknown_task(aws: Aws) -> str:
    ecs = cluster(aws)
    return code_of(lambda: ecs.stop_task(cluster=CLUSTER, task=MISSING))


@RULES.add(
    "MISSING, InvalidParameterException", "API_DescribeTasks", embedded=NOT_ASKED, why=REAL_TIME
)
def task_an_hour_after_its_end(aws: Aws) -> str:
    ecs = cluster(aws, 0)
    arn = run(ecs)["taskArn"]
    aws.clock.sleep(3600)
    answer = ecs.describe_tasks(cluster=CLUSTER, tasks=[arn])
    reasons = [failure["reason"] for failure in answer["failures"]]
    return f"{reasons[0]}, {code_of(lambda: ecs.stop_task(cluster=CLUSTER, task=arn))}"


@RULES.add("mine", "API_ListTasks")
def tasks_listed_by_who_started_them(aws: Aws) -> str:
    ecs = cluster(aws)
    mine = run(ecs, startedBy="me")["taskArn"]
    run(ecs, startedBy="somebody")
    return (
        "mine" if ecs.list_tasks(cluster=CLUSTER, startedBy="me")["taskArns"] == [mine] else "all"
    )


@RULES.add("InvalidParameterException, 0 tasks", RUN)
def override_of_an_unknown_container(aws: Aws) -> str:
    ecs = cluster(aws)
    other = {"containerOverrides": [{"name": "other"}]}
    code = code_of(lambda: run(ecs, overrides=other))
    return f"{code}, {len(ecs.list_tasks(cluster=CLUSTER)['taskArns'])} tasks"


@RULES.add("ClientException", RUN)
def run_of_an_unknown_family(aws: Aws) -> str:
    return refused_run(aws, taskDefinition="huge")
