"""From the kill of a worker to the next attempt: Longhaul beside a loop over boto3.

    .venv/bin/python -m benchmarks.peers [--ages 20 100] [--json]

The loop does what AWS's documentation recommends: a thread extends 60 s of visibility every 30 s,
and a failure makes the message visible at once. It has a second worker, which is free.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, TypeVar

import boto3

from benchmarks import timed_work
from benchmarks.embedded_stack import running_stack
from benchmarks.timed_work import EVENTS, Work
from longhaul.config.sources import sources
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client, child_environment
from longhaul.local.processes import ProcessGroup

VISIBILITY_S: Final = 60
BEAT_S: Final = 30
_PATIENCE_S: Final = 600
_LOOKS_EVERY_S: Final = 0.05

T = TypeVar("T")
Send = Callable[[Work], None]
Events = Callable[[], list[dict[str, Any]]]


def poll(url: str) -> None:
    """Work at the messages of a queue, one at a time, for ever."""
    sqs = boto3.client("sqs")
    while True:
        received = sqs.receive_message(
            QueueUrl=url, WaitTimeSeconds=20, VisibilityTimeout=VISIBILITY_S
        )
        for message in received.get("Messages", ()):
            receipt = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
            done = Event()
            beats = Thread(target=_extend, args=(sqs, receipt, done), daemon=True)
            beats.start()
            try:
                timed_work.do(message["Body"])
            except timed_work.WorkError:
                done.set()
                beats.join()
                sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
            else:
                done.set()
                sqs.delete_message(**receipt)


def _extend(sqs: Any, receipt: dict[str, str], done: Event) -> None:  # noqa: ANN401 - boto3's
    while not done.wait(BEAT_S):
        sqs.change_message_visibility(**receipt, VisibilityTimeout=VISIBILITY_S)


@contextmanager
def a_loop(folder: Path, jobs: int) -> Iterator[tuple[Send, Events]]:
    """Two workers for each job."""
    file = folder / "events"
    with EmbeddedAws(work_dir=folder / "aws", task_dir=folder) as aws:
        sqs = aws_client("sqs", endpoint=aws.endpoint, region=aws.region)
        url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        environment = {
            **os.environ,
            **child_environment(aws.endpoint, aws.region),
            EVENTS: str(file),
            "PYTHONPATH": str(sources()),
        }
        command = [sys.executable, "-m", "benchmarks.peers", "--poll", url]
        workers = [
            ProcessGroup(command, cwd=folder, environment=environment, log=folder / "log")
            for _ in range(2 * jobs)
        ]
        try:
            yield (
                lambda work: sqs.send_message(QueueUrl=url, MessageBody=work.to_json()),
                lambda: timed_work.events(file),
            )
        finally:
            for worker in workers:
                worker.send(signal.SIGKILL)
                worker.wait()


@contextmanager
def longhaul(folder: Path, jobs: int) -> Iterator[tuple[Send, Events]]:
    with running_stack(folder, slots=2 * jobs) as stack:
        yield stack.send, stack.events


def measure(send: Send, events: Events, ages: Sequence[float]) -> dict[str, float]:
    """Seconds until the next attempt: by the age at which a job is killed, and after a failure.

    Raises:
        TimeoutError: an attempt did not come.
    """

    def at(job: str, event: str, nth: int) -> dict[str, Any]:
        """The nth such event of a job."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            matching = [e for e in events() if (e["id"], e["event"]) == (job, event)]
            if len(matching) >= nth:
                return matching[nth - 1]
            time.sleep(_LOOKS_EVERY_S)
        raise TimeoutError(f"{job}: no {event} number {nth} in {_PATIENCE_S} s")

    def kill(age: float) -> float:
        job = f"killed-at-{age:g}"
        send(Work(job, first_s=age + 2 * _PATIENCE_S))
        begun = at(job, "begin", 1)
        time.sleep(max(begun["at"] + age - time.time(), 0))
        killed_at = time.time()
        os.killpg(os.getpgid(begun["pid"]), signal.SIGKILL)  # as when its machine is lost
        return float(at(job, "begin", 2)["at"] - killed_at)

    def fail() -> float:
        send(Work("failed", 2, fails=True))
        return float(at("failed", "begin", 2)["at"] - at("failed", "fail", 1)["at"])

    with ThreadPoolExecutor(len(ages) + 1) as pool:
        kills = {age: pool.submit(kill, age) for age in ages}
        failure = pool.submit(fail)
        figures = {f"killed at {age:g} s": round(each.result(), 1) for age, each in kills.items()}
        return figures | {"failed": round(failure.result(), 1)}


SIDES: Final[Mapping[str, Callable[[Path, int], Any]]] = {"Longhaul": longhaul, "a loop": a_loop}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ages", type=float, nargs="+", default=[20, 100], help="seconds")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--poll", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.poll:
        poll(options.poll)
    logging.disable(logging.CRITICAL)
    figures = {}
    for name, side in SIDES.items():
        with (
            tempfile.TemporaryDirectory(prefix="peers-") as folder,
            side(Path(folder), len(options.ages) + 1) as (send, events),
        ):
            figures[name] = measure(send, events, options.ages)
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    for name, each in figures.items():
        shown = ", ".join(f"{what} → {seconds} s" for what, seconds in each.items())
        sys.stdout.write(f"{name}: {shown}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
