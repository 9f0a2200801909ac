"""The embedded AWS with its roles enforced: what services do by their own names."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.cli.local.aws import roles_judge
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from tests.local.support import ACCOUNT, REGION, eventually


@pytest.fixture
def governed(tmp_path: Path) -> Iterator[EmbeddedAws]:
    with EmbeddedAws(work_dir=tmp_path / "work", task_dir=tmp_path, iam=roles_judge()) as running:
        yield running


def test_run_task_is_refused_where_a_role_does_not_trust_ecs(
    governed: EmbeddedAws, assembly: Callable[..., Path]
) -> None:
    governed.deploy(assembly({"Cluster": {"Type": "AWS::ECS::Cluster"}}), "Tiny")
    iam = aws_client("iam", endpoint=governed.endpoint, region=REGION)
    ecs = aws_client("ecs", endpoint=governed.endpoint, region=REGION)

    def trust(service: str, condition: dict[str, Any] | None = None) -> str:
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": f"{service}.amazonaws.com"},
            "Action": "sts:AssumeRole",
            **({"Condition": condition} if condition else {}),
        }
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]})

    of_others = {"StringEquals": {"aws:SourceAccount": "999999999999"}}
    for name, document in {
        "tasks": trust("ecs-tasks"),
        "functions": trust("lambda"),
        "strangers": trust("ecs-tasks", of_others),
    }.items():
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    container = {"name": "job", "image": "any", "command": ["python", "-c", "1"], "memory": 64}
    ecs.register_task_definition(family="small", containerDefinitions=[container])
    (cluster,) = ecs.list_clusters()["clusterArns"]

    def run(**roles: str) -> Any:
        arns = {kind: f"arn:aws:iam::{ACCOUNT}:role/{name}" for kind, name in roles.items()}
        return ecs.run_task(
            cluster=cluster, taskDefinition="small", launchType="FARGATE", overrides=arns
        )

    for roles in (
        {"taskRoleArn": "functions"},
        {"taskRoleArn": "strangers"},
        {"taskRoleArn": "tasks", "executionRoleArn": "functions"},
    ):
        with pytest.raises(ClientError, match="unable to assume the role") as caught:
            run(**roles)
        assert caught.value.response["Error"]["Code"] == "ClientException"
    assert ecs.list_tasks(cluster=cluster)["taskArns"] == []
    (task,) = run(taskRoleArn="tasks", executionRoleArn="tasks")["tasks"]
    arn = task["taskArn"]
    eventually(
        lambda: (
            ecs.describe_tasks(cluster=cluster, tasks=[arn])["tasks"][0]["lastStatus"] == "STOPPED"
        ),
        "the task ends",
    )
