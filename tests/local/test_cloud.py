import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.local.assembly import DeployError
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import Credentials, NotTrustedError
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
                "Command": [
                    "python",
                    "-c",
                    "import time; print('up', flush=True); time.sleep(600)",
                ],
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
            "Parameters": {
                "Cluster": "${cluster}",
                "LaunchType": "FARGATE",
                "TaskDefinition": "small",
            },
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
            "DefinitionString": {
                "Fn::Sub": [json.dumps(RUN_TASK), {"cluster": {"Ref": "Cluster"}}]
            },
        },
    },
}
OUTPUTS = {"Machine": {"Ref": "Machine"}, "Cluster": {"Ref": "Cluster"}}


def test_stop_leaves_no_process_and_no_thread(
    aws: EmbeddedAws, assembly: Callable[..., Path], client: Callable[[str], Any]
) -> None:
    before = _children()
    outputs = aws.deploy(
        assembly(TEMPLATE, "def echo(event, context): return event", OUTPUTS), "Tiny"
    )
    client("stepfunctions").start_execution(stateMachineArn=outputs["Machine"], name="run")
    logs = aws.work_dir / "tasks"
    # Beside its log, a task has a folder for its temporary files.
    eventually(lambda: any(log.read_text() for log in logs.glob("*.log")), "the task runs")
    assert _children() > before

    aws.stop()
    aws.stop()

    assert _children() <= before  # and threads: see `conftest.py`


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def test_a_state_machine_is_refused_whose_role_does_not_trust_the_service(
    aws: EmbeddedAws, assembly: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def lend(role: str, session: str, service: str, source: str | None = None) -> Credentials:
        asked.append(source)
        del session
        raise NotTrustedError(role, service)

    monkeypatch.setattr(aws, "_lend", lend)
    with pytest.raises(DeployError, match=r"Neither the global service principal states\."):
        aws.deploy(assembly(TEMPLATE, "def echo(event, context): return event", OUTPUTS), "Tiny")
    (source,) = asked
    assert source is not None
    assert ":stateMachine:" in source


def test_second_embedded_aws_in_one_process_is_refused(aws: EmbeddedAws, tmp_path: Path) -> None:
    assert aws.endpoint
    with pytest.raises(RuntimeError, match="stop it first"):
        EmbeddedAws(work_dir=tmp_path / "second", task_dir=tmp_path).start()


def test_next_embedded_aws_on_the_same_port_is_empty(
    tmp_path: Path, aws: EmbeddedAws, client: Callable[[str], Any]
) -> None:
    client("sqs").create_queue(QueueName="left")
    port = int(aws.endpoint.rsplit(":", 1)[-1])
    aws.stop()

    with EmbeddedAws(port=port, work_dir=tmp_path / "second", task_dir=tmp_path):
        assert "QueueUrls" not in client("sqs").list_queues()


def test_taken_port_is_an_error_after_which_a_start_works(aws: EmbeddedAws, tmp_path: Path) -> None:
    port = int(aws.endpoint.rsplit(":", 1)[-1])
    aws.stop()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        EmbeddedAws(port=port, work_dir=tmp_path / "second", task_dir=tmp_path).start()
    with EmbeddedAws(work_dir=tmp_path / "third", task_dir=tmp_path) as third:
        assert third.endpoint


def test_unknown_stack_is_an_error_that_names_the_stacks_of_the_assembly(
    aws: EmbeddedAws, assembly: Callable[..., Path]
) -> None:
    with pytest.raises(DeployError, match=r"no stack 'Other'.*it holds: Tiny"):
        aws.deploy(assembly({}), "Other")
