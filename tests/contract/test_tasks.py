"""`ports.Tasks` on ECS.

On the strict fake alone: moto starts no task without a network, and stops only tasks that it
started.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from longhaul.core import transitions
from longhaul.core.executions import SfnExecutions
from longhaul.core.lease import AttemptId, CommittedOutput, RecordedResult
from longhaul.core.settlement import classify
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.core.store.table import INDEXES, NAMED_BY_TASKS, TTL
from longhaul.core.verdict import OutcomeClass, StoppedTask
from longhaul.engines.fargate.tasks import EcsTasks
from longhaul.engines.listed import ENGINES
from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Task
from tests.builders import NOW, changed, running, there
from tests.contract.conftest import Aws

STARTED = changed(running(), progress_at=NOW)
CLUSTER = "arn:aws:ecs:us-east-1:123456789012:cluster/Longhaul"
ATTEMPT = AttemptId("main#a", 1, 1)


@pytest.fixture
def tasks(fake: FakeAws) -> EcsTasks:
    fake.ecs.create_cluster(clusterName="Longhaul")
    container = {"name": "job", "image": "job", "stopTimeout": 120}
    fake.ecs.register_task_definition(family="Longhaul-small", containerDefinitions=[container])
    return EcsTasks(fake.client("ecs"), CLUSTER)


@pytest.fixture
def task(fake: FakeAws, tasks: EcsTasks) -> Task:  # noqa: ARG001 - it makes the cluster
    return start(fake, LONGHAUL_KEY="main#a", LONGHAUL_RUN="1", LONGHAUL_ATTEMPT="1")


def test_running_tasks_are_listed_with_the_attempts_that_they_were_started_for(
    fake: FakeAws, tasks: EcsTasks
) -> None:
    assert list(tasks.running()) == []
    attempts = [AttemptId(f"main#job-{n}", 1767323045000, n) for n in range(1, 104)]  # two pages
    for attempt in attempts:
        key, run, number = map(str, (attempt.key, attempt.run, attempt.attempt))
        start(fake, LONGHAUL_KEY=key, LONGHAUL_RUN=run, LONGHAUL_ATTEMPT=number)
    start(fake, LONGHAUL_KEY="main#job-1")  # by hand
    start(fake)
    (ended, *_) = fake.ecs.clusters[CLUSTER].tasks.values()
    fake.ecs.end(ended, stop_code="EssentialContainerExited", reason="it ended", exit_code=0)

    found = list(tasks.running())

    assert [each.attempt for each in found] == attempts[1:]
    known = fake.ecs.clusters[CLUSTER].tasks
    assert [known[each.arn].environment["LONGHAUL_KEY"] for each in found] == [
        each.key for each in attempts[1:]
    ]


def start(fake: FakeAws, **environment: str) -> Task:
    pairs = [{"name": name, "value": value} for name, value in environment.items()]
    (started,) = fake.ecs.run_task(
        cluster=CLUSTER,
        taskDefinition="Longhaul-small",
        overrides={"containerOverrides": [{"name": "job", "environment": pairs}]},
    )["tasks"]
    task = fake.ecs.clusters[CLUSTER].tasks[started["taskArn"]]
    fake.ecs.run(task)
    fake.clock.advance(0.1)  # RunTask takes 20 a second
    return task


def described(fake: FakeAws, task: Task) -> dict[str, object]:
    (found,) = fake.ecs.describe_tasks(cluster=CLUSTER, tasks=[task.arn])["tasks"]
    return dict(found)


def test_stopped_task_is_killed_after_its_stop_timeout(
    fake: FakeAws, tasks: EcsTasks, task: Task
) -> None:
    assert tasks.stop(task.arn, ATTEMPT, "Longhaul: stalled " + "x" * 300) == StoppedTask(
        is_gone=False
    )
    assert described(fake, task)["desiredStatus"] == "STOPPED"
    fake.clock.advance(119)
    assert described(fake, task)["lastStatus"] == "RUNNING"
    fake.clock.advance(1)
    ended = described(fake, task)
    assert (ended["lastStatus"], ended["stopCode"]) == ("STOPPED", "UserInitiated")
    assert str(ended["stoppedReason"]).startswith("Longhaul: stalled xxx")


def test_stop_of_a_task_that_ended_is_no_error_however_long_ago(
    fake: FakeAws, tasks: EcsTasks, task: Task
) -> None:
    fake.ecs.end(
        task,
        stop_code="EssentialContainerExited",
        reason="Essential container in task exited",
        exit_code=0,
    )
    tasks.stop(task.arn, ATTEMPT, "Longhaul: cancelled")
    assert described(fake, task)["stopCode"] == "EssentialContainerExited"
    fake.clock.advance(3600)
    assert tasks.stop(task.arn, ATTEMPT, "Longhaul: cancelled") == StoppedTask(is_gone=True)
    none = "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/none"
    assert tasks.stop(none, ATTEMPT, "Longhaul: cancelled").is_gone


@pytest.mark.parametrize(
    "other",
    [replace(ATTEMPT, key="bank#a"), replace(ATTEMPT, run=2), replace(ATTEMPT, attempt=7)],
)
def test_a_task_of_another_attempt_is_never_stopped(
    fake: FakeAws, tasks: EcsTasks, task: Task, other: AttemptId
) -> None:
    assert tasks.stop(task.arn, other, "Longhaul: cancelled").is_gone
    assert described(fake, task)["desiredStatus"] == "RUNNING"


@pytest.mark.parametrize(
    ("stop_code", "exit_code", "kind"),
    [
        ("InfrastructureHealth", None, OutcomeClass.INTERRUPTED),
        ("EssentialContainerExited", 0, OutcomeClass.NO_OUTPUT),
        ("EssentialContainerExited", 1, OutcomeClass.FAILED),
        ("EssentialContainerExited", 65, OutcomeClass.PERMANENT),
    ],
)
def test_stop_of_a_task_that_ended_by_itself_returns_its_end(
    fake: FakeAws,
    tasks: EcsTasks,
    task: Task,
    stop_code: str,
    exit_code: int | None,
    kind: OutcomeClass,
) -> None:
    fake.ecs.end(task, stop_code=stop_code, reason="It ended", exit_code=exit_code)
    ended = there(tasks.stop(task.arn, ATTEMPT, "Longhaul: stalled").ended_as)
    assert classify(STARTED, ended, ENGINES).kind is kind


def test_stop_of_a_task_that_we_stopped_before_returns_no_end(
    fake: FakeAws, tasks: EcsTasks, task: Task
) -> None:
    tasks.stop(task.arn, ATTEMPT, "Longhaul: stalled")
    fake.clock.advance(120)
    assert described(fake, task)["lastStatus"] == "STOPPED"
    assert tasks.stop(task.arn, ATTEMPT, "Longhaul: stalled") == StoppedTask(is_gone=True)


def test_a_cluster_that_is_not_found_says_nothing_about_its_tasks(
    fake: FakeAws, tasks: EcsTasks, task: Task
) -> None:
    elsewhere = EcsTasks(fake.client("ecs"), f"{CLUSTER}-2")
    with pytest.raises(ClientError, match=r"ClusterNotFoundException.*not found"):
        elsewhere.stop(task.arn, ATTEMPT, "Longhaul: stalled")
    assert not tasks.stop(task.arn, ATTEMPT, "Longhaul: stalled").is_gone


# `ports.Executions` on Step Functions. StartExecution probes for a running execution.


DEFINITION = json.dumps(
    {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}
)
ROLE_ARN = "arn:aws:iam::123456789012:role/x"


@pytest.fixture
def executions(aws: Aws) -> SfnExecutions:
    client = aws.client("stepfunctions")
    machine = client.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn=ROLE_ARN)
    return SfnExecutions(client, machine["stateMachineArn"])


def test_repeated_start_starts_one_execution(
    executions: SfnExecutions,
) -> None:
    assert executions.status("job-1-1") is None
    assert executions.ensure_started("job-1-1", '{"a": 1}') is None
    assert executions.ensure_started("job-1-1", '{"a": 1}') is None
    assert executions.status("job-1-1") == "RUNNING"


def test_start_with_another_input_leaves_the_running_execution_alone(
    aws: Aws, executions: SfnExecutions
) -> None:
    executions.ensure_started("job-1-1", '{"a": 1}')
    assert executions.ensure_started("job-1-1", '{"a": 2}') is None
    described = aws.client("stepfunctions").describe_execution(
        executionArn=executions.arn("job-1-1")
    )
    assert described["input"] == '{"a": 1}'


def test_closed_execution_is_not_started_again(aws: Aws, executions: SfnExecutions) -> None:
    executions.ensure_started("job-1-1", "{}")
    aws.client("stepfunctions").stop_execution(executionArn=executions.arn("job-1-1"))
    assert executions.ensure_started("job-1-1", "{}") == "ABORTED"
    assert executions.status("job-1-1") == "ABORTED"


def test_execution_name_is_free_ninety_days_after_the_close(fake: FakeAws) -> None:
    sfn = fake.stepfunctions
    machine = sfn.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn=ROLE_ARN)
    executions = SfnExecutions(fake.client("stepfunctions"), machine["stateMachineArn"])
    executions.ensure_started("job-1-1", "{}")
    fake.clock.advance(timedelta(days=100).total_seconds())
    sfn.stop_execution(executionArn=executions.arn("job-1-1"))
    fake.clock.advance(timedelta(days=89).total_seconds())
    assert executions.status("job-1-1") == "ABORTED"
    fake.clock.advance(timedelta(days=1).total_seconds())
    assert executions.status("job-1-1") is None
    assert executions.ensure_started("job-1-1", "{}") is None


# Which attributes of a row an attempt names in its writes: its role may name no others.


OUTPUT = CommittedOutput(1, 1, 1, prefix="s3://data/out/")
_WORDS = {"SET", "REMOVE", "ADD", "AND", "OR", "NOT", "IN", "BETWEEN"}


def named(request: dict[str, Any]) -> set[str]:
    """The attributes in the expressions and the key of an UpdateItem."""
    text = f"{request['UpdateExpression']} {request['ConditionExpression']}"
    found = set(re.findall(r"(?<![:\w])#?\w+(?!\w*\()", text)) - _WORDS
    names = request["ExpressionAttributeNames"]
    return {names.get(each, each) for each in found} | request["Key"].keys()


WRITES: list[Callable[[DynamoLeases], object]] = [
    lambda leases: leases.report(transitions.register_task(ATTEMPT, "arn:task", NOW)),
    lambda leases: leases.report(transitions.report_progress(ATTEMPT, {"done": 1}, NOW, NOW)),
    lambda leases: leases.report(
        transitions.record_result(ATTEMPT, RecordedResult(1, "failed", "why"))
    ),
    lambda leases: leases.report(transitions.save(ATTEMPT, "record-1", "record-2", 9, NOW)),
    lambda leases: leases.report(transitions.commit(ATTEMPT, OUTPUT)),
    lambda leases: leases.report(transitions.mark_published(ATTEMPT, NOW)),
]


def test_the_role_of_a_task_may_name_what_its_writes_name_and_no_more() -> None:
    class Sent(Exception):  # noqa: N818 - no error
        pass

    found: set[str] = set()
    for write in WRITES:
        client = Mock()
        client.update_item.side_effect = Sent
        with pytest.raises(Sent):
            write(DynamoLeases(Records(client, "leases", Mock(), Mock())))
        found |= named(client.update_item.call_args.kwargs)

    assert found == set(NAMED_BY_TASKS)
    # A row is deleted at its time to live, and found by what the indexes hold.
    assert not {TTL, *(index.name for index in INDEXES)} & found
