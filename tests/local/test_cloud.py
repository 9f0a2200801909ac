import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.assembly import DeployError
from local.cloud import EmbeddedAws
from local.synth import REPOSITORY, SynthError, synth
from tests.local.support import eventually, function

SLEEPING_TASK = {
    "Type": "AWS::ECS::TaskDefinition",
    "Properties": {
        "Family": "small",
        "Cpu": "1024",
        "Memory": "4096",
        "NetworkMode": "awsvpc",
        "RequiresCompatibilities": ["FARGATE"],
        "ContainerDefinitions": [
            {
                "Name": "job",
                "Image": "any",
                "Essential": True,
                "StopTimeout": 2,
                "Command": ["python", "-c", "import time; print('up', flush=True); time.sleep(600)"],
            }
        ],
    },
}
RUN_TASK = {
    "StartAt": "Run",
    "States": {
        "Run": {
            "Type": "Task",
            "Resource": "arn:aws:states:::ecs:runTask.sync",
            "Parameters": {"Cluster": "${cluster}", "LaunchType": "FARGATE", "TaskDefinition": "small"},
            "End": True,
        }
    },
}
TEMPLATE = {
    "Cluster": {"Type": "AWS::ECS::Cluster"},
    "Task": SLEEPING_TASK,
    "Echo": function("echo"),
    "Machine": {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "DefinitionString": json.dumps(RUN_TASK),
            "DefinitionSubstitutions": {"cluster": {"Ref": "Cluster"}},
        },
    },
}
OUTPUTS = {"Machine": {"Ref": "Machine"}, "Cluster": {"Ref": "Cluster"}}


def test_stop_leaves_no_process_and_no_thread(
    aws: EmbeddedAws, assembly: Callable[..., Path], client: Callable[[str], Any]
) -> None:
    before = _children()  # of other tests in this process: a Spark JVM, CDK's Node
    outputs = aws.deploy(assembly(TEMPLATE, "def echo(event, context): return event", OUTPUTS), "Tiny")
    client("stepfunctions").start_execution(stateMachineArn=outputs["Machine"], name="run")
    logs = aws.work_dir / "tasks"
    eventually(lambda: logs.exists() and any(log.read_text() for log in logs.iterdir()), "the task runs")
    assert len(_children() - before) == 2

    aws.stop()
    aws.stop()

    assert _children() <= before
    eventually(
        lambda: (
            [t.name for t in threading.enumerate() if t.name.startswith(("execution", "lambda", "task", "esm"))] == []
        ),
        "quiet",
    )


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def test_second_embedded_aws_in_one_process_is_refused(aws: EmbeddedAws, tmp_path: Path) -> None:
    assert aws.endpoint
    with pytest.raises(RuntimeError, match="stop it first"):
        EmbeddedAws(work_dir=tmp_path / "second").start()


def test_next_embedded_aws_starts_empty(tmp_path: Path, aws: EmbeddedAws, client: Callable[[str], Any]) -> None:
    client("sqs").create_queue(QueueName="left")
    port = int(aws.endpoint.rsplit(":", 1)[-1])
    aws.stop()

    with EmbeddedAws(port=port, work_dir=tmp_path / "second"):
        assert "QueueUrls" not in client("sqs").list_queues()


def test_taken_port_is_an_error_and_the_next_start_works(aws: EmbeddedAws, tmp_path: Path) -> None:
    port = int(aws.endpoint.rsplit(":", 1)[-1])
    aws.stop()
    import socket  # noqa: PLC0415 - only here

    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        EmbeddedAws(port=port, work_dir=tmp_path / "second").start()
    with EmbeddedAws(port=0, work_dir=tmp_path / "third") as third:
        assert third.endpoint


def test_unknown_stack_is_an_error_that_names_those_there_are(aws: EmbeddedAws, assembly: Callable[..., Path]) -> None:
    with pytest.raises(DeployError, match=r"no stack 'Other'.*it holds: Tiny"):
        aws.deploy(assembly({}), "Other")


def test_app_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"longhaul": {"no_such_setting": 1}}))

    with pytest.raises(SynthError, match="no_such_setting"):
        synth(tmp_path / "cdk.out", profile=profile)


def test_real_template_is_deployed_and_its_queue_is_polled(
    aws: EmbeddedAws, client: Callable[[str], Any], tmp_path: Path
) -> None:
    outputs = aws.deploy(synth(tmp_path / "cdk.out"), "Longhaul")

    assert outputs.keys() >= {
        "JobsQueueUrl",
        "DeadLetterQueueUrl",
        "LeasesTableName",
        "StateMachineArn",
        "DataBucketName",
    }
    sqs = client("sqs")
    sqs.send_message(QueueUrl=outputs["JobsQueueUrl"], MessageBody="{}")

    # Not a job: the dispatcher dead-letters it at once.
    (dead,) = eventually(
        lambda: sqs.receive_message(
            QueueUrl=outputs["DeadLetterQueueUrl"], WaitTimeSeconds=5, MessageAttributeNames=["All"]
        ).get("Messages"),
        f"a dead letter; see the logs under {aws.work_dir} of {REPOSITORY}",
        60,
    )
    assert json.loads(dead["MessageAttributes"]["longhaul"]["StringValue"])["class"]
