"""The embedded AWS with the synthesized stack, as `longhaul up` starts it."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples.demo import kill
from longhaul.cli.local.aws import embedded_aws, roles_judge
from longhaul.core.clients import SystemClock
from longhaul.core.lease import Lease, State
from longhaul.core.places import TablePath
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.manifest import Manifest
from tests.builders import there
from tests.layers import ROOT
from tests.local.support import eventually
from tests.synthesized import local_profile

# Only a test that fails waits this long. Spark starts in seconds, and in more on a busy machine; a
# lost wake-up is repaired by the next sweep, which comes every five minutes.
DEADLINE_S = 480
# Each look calls the moto server, which shares its cores with the jobs.
_LOOKS_EVERY_S = 0.1
_LOG_LINES = 40
LONGHAUL = [sys.executable, "-m", "longhaul.cli.cli"]
STAND_IN = Path(__file__).parent / "standin"


@dataclass(frozen=True)
class Stack:
    """The deployed stack, as a client sees it."""

    aws: EmbeddedAws
    outputs: dict[str, str]

    def client(self, service: str) -> Any:
        return aws_client(service, endpoint=self.aws.endpoint, region=self.aws.region)

    @property
    def bucket(self) -> str:
        return self.outputs["DataBucketName"]

    @property
    def leases(self) -> DynamoLeases:
        return DynamoLeases(
            Records(
                self.client("dynamodb"),
                self.outputs["LeasesTableName"],
                SystemClock(),
                random.Random(1),
            )
        )

    def longhaul(self, *arguments: str, input: str | None = None) -> tuple[int, str, str]:  # noqa: A002 - as subprocess names it
        """Run a command in a process of its own; exit code, stdout, stderr."""
        done = subprocess.run(
            [*LONGHAUL, *arguments],
            input=input,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "AWS_ENDPOINT_URL": self.aws.endpoint},
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def select(self, job_id: str, query: str, **changes: Any) -> str:
        """Body of a small Spark job."""
        output = f"s3://{self.bucket}/{job_id}/"
        return json.dumps(
            {
                "job": "sql",
                "job_id": job_id,
                "output": output,
                "params": {"query": query, "format": "json"},
                **changes,
            }
        )

    def plan(
        self,
        job_id: str,
        *plan: str,
        work_s: float = 0,
        until: Path | None = None,
        **changes: Any,
    ) -> str:
        """Body of a job for the runner without Spark: one word for each of its attempts.

        Each works for `work_s` seconds, or until there is a file at `until`.
        """
        request = {"job": "sql", "job_id": job_id, "output": f"s3://{self.bucket}/{job_id}/"}
        params = {"plan": plan, "work_s": work_s, "until": until and str(until)}
        return json.dumps({**request, "params": params, **changes})

    def table_rows(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a table of the stack's database, as pyiceberg reads them."""
        tables = Tables(lambda: self.client("glue"), self.client("s3"), self.bucket)
        table = there(tables.load(TablePath("longhaul", name)))
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def invoke(self, handler: str, payload: dict[str, Any]) -> Any:
        """The answer of the function with that handler's module, such as `sweeper`, or `tiny`."""
        functions = self.client("lambda")
        # A function that is an image, as the size `tiny` is, has no handler.
        sought = None if handler == "tiny" else f"functions.{handler}.lambda_handler"
        (name,) = (
            each["FunctionName"]
            for each in functions.list_functions()["Functions"]
            if each.get("Handler") == sought
        )
        answer = functions.invoke(FunctionName=name, Payload=json.dumps(payload))
        return json.loads(answer["Payload"].read())

    def send(self, body: str) -> None:
        self.client("sqs").send_message(QueueUrl=self.outputs["JobsQueueUrl"], MessageBody=body)

    def row(self, job_id: str) -> Lease | None:
        return self.leases.load(f"main#{job_id}")

    def process_group_of(self, job_id: str) -> int | None:
        """The process group of the job's task; None without one."""
        return kill.process_group_of(f"main#{job_id}", self.aws.endpoint)

    def kill(self, job_id: str) -> None:
        assert kill.kill(f"main#{job_id}", self.aws.endpoint), f"{job_id} does not run"

    def wait_for(
        self, condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S
    ) -> Any:
        """The first true value of `condition`; without one the test fails with `story`."""
        return eventually(condition, what, deadline_s, every_s=_LOOKS_EVERY_S, story=self.story)

    def row_when(
        self,
        job_id: str,
        condition: Callable[[Lease], object],
        what: str,
        deadline_s: float = DEADLINE_S,
    ) -> Lease:
        """The row once it is there and meets the condition."""

        def met() -> Lease | None:
            row = self.row(job_id)
            return row if row and condition(row) else None

        found: Lease = self.wait_for(met, f"{job_id}: {what}", deadline_s)
        return found

    def until(self, job_id: str, *states: State) -> Lease:
        """The row once it is in one of the states; in a final one, once it owes nothing."""
        return self.row_when(
            job_id,
            lambda row: row.state in states and (row.is_finished or not row.state.is_terminal),
            " or ".join(states),
        )

    def until_task(self, job_id: str, attempt: int = 1) -> Lease:
        """The row once a task of that attempt has registered."""
        return self.row_when(
            job_id,
            lambda row: row.attempt.number == attempt and row.attempt.task_arn,
            f"a task of attempt {attempt}",
        )

    def until_progress(self, job_id: str, phase: str) -> Lease:
        """The row once its task reports that phase."""
        return self.row_when(job_id, lambda row: row.attempt.progress.get("phase") == phase, phase)

    def until_quiet(self, deadline_s: float = DEADLINE_S) -> None:
        self.wait_for(self.is_quiet, "no message, no execution and no slot left", deadline_s)

    def execution_of(self, row: Lease) -> str:
        """The ARN of the execution of the row's attempt."""
        executions = self.outputs["StateMachineArn"].replace(":stateMachine:", ":execution:")
        return f"{executions}:{row.id.execution_name}"

    def ended_as(self, row: Lease) -> str:
        """How the execution of the row's attempt ended: its status, or its error."""
        sfn = self.client("stepfunctions")

        def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = sfn.describe_execution(executionArn=self.execution_of(row))
            return found if found["status"] != "RUNNING" else None

        found = self.wait_for(ended, "the execution to end")
        return str(found["error"] if found["status"] == "FAILED" else found["status"])

    def executions_of(self, row: Lease) -> list[str]:
        """The names of the job's executions."""
        pages = self.client("stepfunctions").get_paginator("list_executions")
        found = pages.paginate(stateMachineArn=self.outputs["StateMachineArn"]).search(
            "executions[].name"
        )
        return sorted(name for name in found if name.startswith(row.id.key_hash))

    def rows(self, job_id: str) -> list[dict[str, Any]]:
        """The rows of the output, found by its manifest."""
        s3 = self.client("s3")
        read = Manifest.model_validate_json(
            s3.get_object(Bucket=self.bucket, Key=f"{job_id}/_SUCCESS")["Body"].read()
        )
        files = [
            s3.get_object(Bucket=self.bucket, Key=f"{job_id}/{file.path}")["Body"].read()
            for file in read.files
        ]
        return [json.loads(line) for body in files for line in body.splitlines()]

    def dead_letter(self, matching: str) -> dict[str, Any]:
        """The explanation of the dead letter whose body contains a text."""
        sqs = self.client("sqs")

        def found() -> dict[str, Any] | None:
            answer = sqs.receive_message(
                QueueUrl=self.outputs["DeadLetterQueueUrl"],
                MaxNumberOfMessages=10,
                VisibilityTimeout=0,
                MessageAttributeNames=["All"],
            )
            for message in answer.get("Messages", []):
                if matching in message["Body"]:
                    explanation: dict[str, Any] = json.loads(
                        message["MessageAttributes"]["longhaul"]["StringValue"]
                    )
                    return explanation
            return None

        letter: dict[str, Any] = self.wait_for(found, f"a dead letter with {matching}")
        return letter

    def story(self) -> str:
        """Rows, messages, the latest events of running executions, and the ends of the logs."""
        table, queue = self.outputs["LeasesTableName"], self.outputs["JobsQueueUrl"]
        sfn = self.client("stepfunctions")
        counts = self.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])
        items = self.client("dynamodb").scan(TableName=table)["Items"]
        leases = [str(item) for item in items if item["item"]["S"] == "lease"]
        told = [*leases, str(counts["Attributes"])]
        for each in sfn.list_executions(
            stateMachineArn=self.outputs["StateMachineArn"], statusFilter="RUNNING"
        )["executions"]:
            events = sfn.get_execution_history(executionArn=each["executionArn"])["events"]
            told.append(
                f"{each['name']} runs: "
                f"{[(event['type'], str(event['timestamp'])) for event in events[-12:]]}"
            )
        for log in sorted(self.aws.work_dir.rglob("*.log")):
            told += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-_LOG_LINES:]]
        return "\n".join(told)

    def is_quiet(self) -> bool:
        """No message, no execution, no slot taken."""
        counts = self.client("sqs").get_queue_attributes(
            QueueUrl=self.outputs["JobsQueueUrl"], AttributeNames=["All"]
        )["Attributes"]
        queued = sum(
            int(count) for name, count in counts.items() if name.startswith("ApproximateNumberOf")
        )
        machine = self.outputs["StateMachineArn"]
        running = self.client("stepfunctions").list_executions(
            stateMachineArn=machine, statusFilter="RUNNING"
        )["executions"]
        item = (
            self.client("dynamodb")
            .get_item(
                TableName=self.outputs["LeasesTableName"],
                Key={"key": {"S": "slots#main"}, "item": {"S": "slots"}},
            )
            .get("Item", {"running": {"N": "0"}})
        )
        return queued == 0 and not running and item["running"]["N"] == "0"


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template with the local profile."""
    return local_profile(tmp_path_factory)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, assembly: Path) -> Iterator[Stack]:
    with embedded_aws(tmp_path_factory.mktemp("embedded-aws"), iam=roles_judge()) as aws:
        yield Stack(aws, aws.deploy(assembly, "Longhaul"))


@pytest.fixture(scope="module")
def sparkless(tmp_path_factory: pytest.TempPathFactory, assembly: Path) -> Iterator[Stack]:
    """The same with a runner without Spark, and messages that lapse in seconds."""
    hasty = impatient(assembly, tmp_path_factory.mktemp("impatient") / "cdk.out", visibility_s=5)
    folder = tmp_path_factory.mktemp("embedded-aws")
    with embedded_aws(folder, task_dir=STAND_IN, iam=roles_judge()) as aws:
        yield Stack(aws, aws.deploy(hasty, "Longhaul"))


def impatient(assembly: Path, copy: Path, *, visibility_s: int) -> Path:
    """The assembly with a visibility timeout of seconds: what a kill undid is redone soon.

    AWS would refuse it: the dispatcher's own timeout is longer.
    """
    shutil.copytree(assembly, copy)
    file = copy / "Longhaul.template.json"
    template = json.loads(file.read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::SQS::Queue" and "RedrivePolicy" in resource["Properties"]:
            resource["Properties"]["VisibilityTimeout"] = visibility_s
    file.write_text(json.dumps(template))
    return copy
