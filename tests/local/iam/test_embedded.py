"""The embedded AWS with its roles enforced: what services do by their own names."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.cli.local.aws import roles_judge
from longhaul.local.cloud import EmbeddedAws
from tests.local.support import ACCOUNT, eventually, function

CREATED = {"source": ["aws.s3"], "detail-type": ["Object Created"]}
CODE = "def echo(event, context): print('called', flush=True)"


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[EmbeddedAws]:
    """With its roles enforced."""
    with EmbeddedAws(work_dir=tmp_path / "work", task_dir=tmp_path, iam=roles_judge()) as running:
        yield running


def queue(name: str) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}


def queue_policy(of: str, *rules: str) -> dict[str, Any]:
    """A policy that lets these rules send to a queue."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": {"Fn::GetAtt": [of, "Arn"]},
        "Condition": {
            "ArnEquals": {"aws:SourceArn": [{"Fn::GetAtt": [rule, "Arn"]} for rule in rules]}
        },
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [{"Ref": of}], "PolicyDocument": document},
    }


def rule(target: str, **more: Any) -> dict[str, Any]:
    target_of = {"Id": "1", "Arn": {"Fn::GetAtt": [target, "Arn"]}, **more}
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {"State": "ENABLED", "EventPattern": CREATED, "Targets": [target_of]},
    }


TEMPLATE = {
    "Data": {
        "Type": "AWS::S3::Bucket",
        "Properties": {
            "BucketName": "data",
            "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
        },
    },
    "Open": queue("open"),
    "Closed": queue("closed"),
    "Letters": queue("letters"),
    "Echo": function("echo", Role={"Fn::GetAtt": ["Runs", "Arn"]}),
    "Runs": {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": "lambda.amazonaws.com"},
                        "Action": "sts:AssumeRole",
                    }
                ],
            }
        },
    },
    "ToOpen": rule("Open"),
    "ToClosed": rule("Closed", DeadLetterConfig={"Arn": {"Fn::GetAtt": ["Letters", "Arn"]}}),
    "ToFunction": rule("Echo", DeadLetterConfig={"Arn": {"Fn::GetAtt": ["Letters", "Arn"]}}),
    "OfOpen": queue_policy("Open", "ToOpen"),
    "OfClosed": queue_policy("Closed", "ToOpen"),  # and not its own rule
    "OfLetters": queue_policy("Letters", "ToClosed", "ToFunction"),
}


def test_a_rule_reaches_the_targets_alone_whose_policies_let_it(
    aws: EmbeddedAws,
    assembly: Callable[..., Path],
    client: Callable[[str], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    aws.deploy(assembly(TEMPLATE, CODE), "Tiny")
    client("s3").put_object(Bucket="data", Key="k", Body=b"1")
    sqs = client("sqs")

    def received(name: str) -> list[dict[str, Any]]:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        return list(answer.get("Messages", []))

    (event,) = received("open")
    assert json.loads(event["Body"])["source"] == "aws.s3"
    assert received("closed") == []
    letters = received("letters")
    codes = [each["MessageAttributes"]["ERROR_CODE"]["StringValue"] for each in letters]
    targets = {each["MessageAttributes"]["TARGET_ARN"]["StringValue"] for each in letters}
    assert codes == ["NO_PERMISSIONS", "NO_PERMISSIONS"]
    assert {arn.split(":")[2] for arn in targets} == {"sqs", "lambda"}
    assert "service events, action lambda:InvokeFunction" in caplog.text

    # With the right that was missing, the next event reaches the function.
    (name,) = (each["FunctionName"] for each in client("lambda").list_functions()["Functions"])
    arn = client("events").describe_rule(Name=_named(client, "ToFunction"))["Arn"]
    client("lambda").add_permission(
        FunctionName=name,
        StatementId="rule",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
        SourceArn=arn,
    )
    client("s3").put_object(Bucket="data", Key="k", Body=b"2")
    logs = aws.work_dir / "functions"
    eventually(lambda: any("called" in log.read_text() for log in logs.rglob("*.log")), "called")


def _named(client: Callable[[str], Any], part: str) -> str:
    names = (str(each["Name"]) for each in client("events").list_rules()["Rules"])
    return next(name for name in names if part in name)


def test_run_task_is_refused_where_a_role_does_not_trust_ecs(
    aws: EmbeddedAws, assembly: Callable[..., Path], client: Callable[[str], Any]
) -> None:
    aws.deploy(assembly({"Cluster": {"Type": "AWS::ECS::Cluster"}}), "Tiny")
    iam, ecs = client("iam"), client("ecs")

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
