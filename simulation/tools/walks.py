"""Follow a message through the code: `python -m simulation.tools.walks`.

Prints the files of `functions/` and `longhaul/` in the order in which they run over the strict
fakes: from a received message to a started job, from an ended task to a deleted message, and for
`longhaul status JOB`. A move to a new file has a number; a return to an earlier one names its old
number. The functions are warm: `longhaul/wiring.py` has put their parts together before.
"""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import patch

import boto3

from functions import dispatcher, settle
from longhaul.cli.entry import main as longhaul
from longhaul.cli.place import Place
from longhaul.config.sources import version
from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput, Lease
from longhaul.core.settings import VARIABLE, runtime_settings
from longhaul.wiring import Wiring
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.cloudformation import DeployedStack, FakeCloudFormation
from simulation.aws.lambda_api import FakeLambda
from simulation.aws.platform.mapping import record_of
from simulation.aws.template import deployed

_ROOT: Final = Path(__file__).resolve().parents[2]
_FOLDERS: Final = tuple(f"{_ROOT / folder}{os.sep}" for folder in ("functions", "longhaul"))
_JOB: Final = "flights-2013-01"


@dataclass
class Walk:
    """The files that ran, in order; a file again, when the code comes back to it."""

    name: str
    files: list[str] = field(default_factory=list)

    @property
    def distinct(self) -> int:
        return len(set(self.files))

    @property
    def returns(self) -> int:
        """How often the code came back to a file."""
        return len(self.files) - self.distinct

    def reach(self, file: str) -> None:
        if self.files[-1:] != [file]:
            self.files.append(file)

    def lines(self) -> Iterator[str]:
        """For people: each file with its number; one that was there before with its old number."""
        numbers: dict[str, int] = {}
        for file in self.files:
            if file in numbers:
                yield f"      back to {numbers[file]:2}  {file}"
            else:
                numbers[file] = len(numbers) + 1
                yield f"  {numbers[file]:2}  {file}"
        yield f"{self.name}: {self.distinct} files, {self.returns} returns"


@contextmanager
def followed(walk: Walk) -> Iterator[None]:
    """Note the files of all calls and returns in the block, also those of its threads.

    Not those of an import: what a module does while it is loaded is no step of a message.
    """

    def note(frame: FrameType, event: str, _: object) -> None:
        if event not in {"call", "return"} or _file(frame) is None:
            return
        if any(each.f_code.co_name == "<module>" for each in _own(frame)):
            return
        reached = frame if event == "call" else next(_own(frame.f_back), None)
        if reached is not None:
            walk.reach(cast("str", _file(reached)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _own(frame: FrameType | None) -> Iterator[FrameType]:
    """Of this frame and its callers those that are the product's, the nearest first."""
    while frame is not None:
        if _file(frame) is not None:
            yield frame
        frame = frame.f_back


def _file(frame: FrameType) -> str | None:
    return _relative(frame.f_code.co_filename)


@cache
def _relative(name: str) -> str | None:
    return str(Path(name).relative_to(_ROOT)) if name.startswith(_FOLDERS) else None


class RealTime(VirtualClock):
    """The time of the fakes is the one that the product's own clock tells."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Story:
    """One message in a deployed stack, from its receive to its deletion."""

    def __init__(self) -> None:
        self._stack = deployed()
        self._settings = self._stack.settings
        self._aws = FakeAws(RealTime())
        self._deploy()
        self._parts = Wiring(self._settings, self._aws.client)
        self._context: Any = SimpleNamespace(
            function_name="walks",
            memory_limit_in_mb=512,
            invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:walks",
            aws_request_id="walks",
            get_remaining_time_in_millis=lambda: 60_000,
        )

    def _deploy(self) -> None:
        for name, attributes in self._stack.queues.items():
            self._aws.sqs.create_queue(QueueName=name, Attributes=attributes)
        self._aws.dynamodb.create_table(**self._stack.table)
        self._aws.s3.create_bucket(Bucket=self._settings.paths.data_bucket)
        self._aws.stepfunctions.create_state_machine(
            name="Longhaul", definition=self._stack.definition, roleArn=""
        )

    def walks(self) -> list[Walk]:
        """The three walks, in their order."""
        with ExitStack() as patched:
            patched.enter_context(patch.object(boto3, "client", self._aws.client))
            patched.enter_context(
                patch.dict(os.environ, {VARIABLE: self._settings.model_dump_json()})
            )
            for each in (dispatcher.build, settle.build, runtime_settings):
                each.cache_clear()
            patched.callback(runtime_settings.cache_clear)
            # The functions' logs and metrics.
            patched.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.CRITICAL)
            patched.enter_context(redirect_stdout(io.StringIO()))
            return [self._received(), self._ended(), self._status()]

    def _received(self) -> Walk:
        bucket = self._settings.paths.data_bucket
        stage = self._settings.stages[0]
        body = {
            "job": "flights_clean",
            "job_id": _JOB,
            "inputs": {"flights": f"s3://{bucket}/raw/2013-01.csv"},
            "output": f"s3://{bucket}/clean/2013-01/",
        }
        self._aws.sqs.send_message(QueueUrl=stage.queue_url, MessageBody=json.dumps(body))
        (message,) = self._aws.sqs.receive_message(
            QueueUrl=stage.queue_url, AttributeNames=["All"], MessageAttributeNames=["All"]
        )["Messages"]
        queue = self._aws.sqs.queues[stage.queue_url]
        event = {"Records": [record_of(message, queue.arn)]}
        dispatcher.build()
        walk = self._follow(
            "received → started", lambda: dispatcher.lambda_handler(event, self._context)
        )
        (started,) = self._aws.stepfunctions.list_executions(
            stateMachineArn=self._settings.state_machine_arn
        )["executions"]
        self._execution = json.loads(
            self._aws.stepfunctions.describe_execution(executionArn=started["executionArn"])[
                "input"
            ]
        )
        return walk

    def _ended(self) -> Walk:
        row = self._row()
        task = f"{self._settings.cluster_arn.replace(':cluster/', ':task/')}/0123456789abcdef"
        output = CommittedOutput(
            attempt=row.attempt.number,
            prefix=f"s3://{self._settings.paths.data_bucket}/clean/2013-01/",
            files=1,
            size_bytes=1,
        )
        self._parts.leases.report(transitions.register_task(row.id, task, self._parts.clock.now()))
        self._parts.leases.report(transitions.commit(row.id, output))
        self._parts.leases.report(transitions.mark_published(row.id, self._parts.clock.now()))
        event = {**self._execution, "task": _succeeded(task)}
        settle.build()
        walk = self._follow("ended → deleted", lambda: settle.lambda_handler(event, self._context))
        left = self._aws.sqs.queues[self._settings.stages[0].queue_url].messages
        if left or self._row().owed:
            raise AssertionError("the message is not deleted")
        return walk

    def _status(self) -> Walk:
        aws: Any = self._aws
        aws.cloudformation = FakeCloudFormation(aws.gate)
        aws.lambda_ = FakeLambda(aws.gate)
        stage = self._settings.stages[0]
        outputs = {
            "JobsQueueUrl": stage.queue_url,
            "DeadLetterQueueUrl": stage.dead_letter_queue_url,
            "LeasesTableName": self._settings.leases_table,
            "StateMachineArn": self._settings.state_machine_arn,
            "DataBucketName": self._settings.paths.data_bucket,
            "LonghaulVersion": version(),
        }
        resources = {"Dispatcher": ("AWS::Lambda::Function", "Dispatcher")}
        aws.cloudformation.stacks["Longhaul"] = DeployedStack(
            "Longhaul", outputs=outputs, resources=resources
        )
        aws.lambda_.functions["Dispatcher"] = {VARIABLE: self._settings.model_dump_json()}

        def client(service: str, **_: object) -> Any:
            return aws.lambda_ if service == "lambda" else getattr(aws, service)

        session = SimpleNamespace(region_name="us-east-1", client=client)
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with (
            patch.object(boto3, "Session", lambda **_: session),
            patch("longhaul.cli.target.locate", lambda *_: Place(None, "us-east-1", None, False)),
            patch.object(sys, "argv", ["longhaul", "status", _JOB]),
            redirect_stdout(said),
            redirect_stderr(said),
        ):
            walk = self._follow("status", longhaul)
        said.seek(0)
        if "SUCCEEDED" not in (text := said.read()):
            raise AssertionError(f"the command does not know the job: {text}")
        return walk

    def _follow(self, name: str, do: Callable[[], object]) -> Walk:
        walk = Walk(name)
        with followed(walk), suppress(SystemExit):
            do()
        return walk

    def _row(self) -> Lease:
        row = self._parts.leases.load(f"{self._settings.stages[0].name}#{_JOB}")
        if row is None:
            raise AssertionError("the message was not claimed")
        return row


def _succeeded(task: str) -> Mapping[str, Any]:
    """What `.sync` returns of a task that exited with 0."""
    return {
        "TaskArn": task,
        "StopCode": "EssentialContainerExited",
        "Containers": [{"Name": "job", "ExitCode": 0}],
    }


def walk_all() -> list[Walk]:
    """The three walks. The first story loads the modules that are imported late."""
    Story().walks()
    return Story().walks()


def main() -> None:
    """Print the walks, and last the numbers of their files on one line."""
    walks = walk_all()
    for walk in walks:
        print("\n".join(walk.lines()), end="\n\n")
    names = ("received_started", "ended_deleted", "status")
    print(*(f"{name}={walk.distinct}" for name, walk in zip(names, walks, strict=True)))


if __name__ == "__main__":
    main()
