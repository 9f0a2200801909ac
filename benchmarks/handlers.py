"""What the functions cost: a batch of messages beside one message at a time, and cold starts.

    .venv/bin/python -m benchmarks.handlers [--runs 5] [--latency-ms 15] [--python PATH] [--json]

The dispatcher is the real one with the fakes of AWS behind it; each call takes as long as
`--latency-ms` says, outside of the fakes' lock, as calls of AWS do. The cold start is counted in
modules and measured in CPU seconds, as a ratio to the import of the three libraries alone. With a
Python of Lambda's version (`--python`), it is also measured from the layer, with its bytecode as a
ratio to without.
"""

import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from os import devnull
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import pairs
from functions.dispatcher import handle
from longhaul.adapters.dynamodb.table import creation
from longhaul.cdk import layer
from longhaul.cli.synth import ARCHITECTURES
from longhaul.config.sources import sources
from longhaul.settings import PathPolicy, RuntimeSettings, Stage
from longhaul.wiring import Wiring
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.platform.mapping import record_of
from simulation.aws.service import ACCOUNT, REGION

_BATCH: Final = 10  # the most that SQS hands out at once
_BUCKET: Final = "longhaul-data"
_NAMES: Final = ("dispatcher", "heartbeat", "settle", "sweeper")
_LIBRARIES: Final = "boto3, pydantic, aws_lambda_powertools"
_IMPORTS: Final = """
import json, sys, time
began = time.process_time()
import {modules}
print(json.dumps([time.process_time() - began, len(sys.modules)]))
"""


class _Distant:
    """A client each of whose calls takes a while."""

    def __init__(self, client: Any, latency_s: float) -> None:  # noqa: ANN401 - any client
        self._client = client
        self._latency_s = latency_s

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)

        def late(**arguments: Any) -> Any:  # noqa: ANN401 - any call
            time.sleep(self._latency_s)
            return call(**arguments)

        return late


def dispatched(at_once: int, latency_s: float) -> float:
    """Seconds in which a warm dispatcher starts ten jobs, so many in each batch."""
    aws = FakeAws(VirtualClock(datetime.now(UTC)))
    queue = aws.sqs.create_queue(QueueName="jobs")["QueueUrl"]
    dead_letters = aws.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
    aws.s3.create_bucket(Bucket=_BUCKET)
    aws.dynamodb.create_table(**creation("leases"))
    machine = aws.stepfunctions.create_state_machine(
        name="Longhaul",
        definition='{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}',
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/x",
    )["stateMachineArn"]
    settings = RuntimeSettings(
        leases_table="leases",
        stages=(Stage(slots=100, queue_url=queue, dead_letter_queue_url=dead_letters),),
        paths=PathPolicy(data_bucket=_BUCKET),
        jobs=("sql",),
        state_machine_arn=machine,
        cluster_arn=f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/Longhaul",
        job_log_group="/longhaul/jobs",
    )
    dispatcher = Wiring(
        settings, lambda name, **_: _Distant(aws.client(name), latency_s)
    ).dispatcher
    for n in range(_BATCH):
        output = f"s3://{_BUCKET}/out/{n}/"
        body = {"job": "sql", "output": output, "params": {"query": "SELECT 1"}}
        aws.sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(body))
    records = [
        record_of(message, aws.sqs.queues[queue].arn)
        for message in aws.sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=_BATCH, AttributeNames=["All"]
        )["Messages"]
    ]
    batches = [records[n : n + at_once] for n in range(0, _BATCH, at_once)]
    began = time.perf_counter()
    for batch in batches:
        handle({"Records": batch}, dispatcher)
    took = time.perf_counter() - began
    if len(aws.stepfunctions.executions) != _BATCH:
        raise RuntimeError("not every job was started")
    return took


def cold_starts(runs: int) -> dict[str, dict[str, float]]:
    """Modules of each function, and its CPU time as a ratio to the libraries' alone."""
    sides = {"libraries": _LIBRARIES} | {name: f"functions.{name}" for name in _NAMES}
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, modules in sides.items():
            found[name].append(_imported(sys.executable, modules))
    alone = median(cpu_s for cpu_s, _ in found["libraries"])
    return {
        name: {
            "modules": rounds[0][1],
            "cpu_ratio": round(median(cpu_s for cpu_s, _ in rounds) / alone, 2),
        }
        for name, rounds in found.items()
    }


def from_layer(python: str, runs: int) -> dict[str, float]:
    """CPU time to import each function from the layer with bytecode, as a ratio to without."""
    compiled = layer.build(sources(), ARCHITECTURES[platform.machine()]) / "python"
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        plain = shutil.copytree(
            compiled, Path(folder) / "plain", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in _NAMES:
            found: dict[Path, list[float]] = {compiled: [], plain: []}
            for _ in range(runs):
                for packages, rounds in found.items():
                    rounds.append(_imported(python, f"functions.{name}", packages)[0])
            ratios[name] = round(median(found[compiled]) / median(found[plain]), 2)
    return ratios


def _imported(python: str, modules: str, packages: Path | None = None) -> tuple[float, int]:
    """CPU seconds of the import in a process of its own, and how many modules there are then."""
    environment = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"} if packages else {}
    done = subprocess.run(
        [python, "-c", _IMPORTS.format(modules=modules)],
        capture_output=True,
        check=True,
        cwd=sources(),
        env=os.environ | environment,
        text=True,
    )
    cpu_s, count = json.loads(done.stdout)
    return cpu_s, count


def main(arguments: Sequence[str]) -> None:
    parser = pairs.parser(__doc__ or "", 5)
    parser.add_argument("--latency-ms", type=float, default=15)
    parser.add_argument("--python", help=f"a Python {layer.PYTHON_VERSION}")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    latency_s = options.latency_ms / 1000
    with Path(devnull).open("w") as nothing, redirect_stdout(nothing):  # the metrics' lines
        ours, others = pairs.take_turns(
            lambda: dispatched(_BATCH, latency_s),
            {"one at a time": lambda: dispatched(1, latency_s)},
            options.runs,
        )
    measured = {name: pairs.ratios(ours, seconds) for name, seconds in others.items()}
    pairs.show(
        "ten messages in one batch",
        measured,
        {
            "latency_ms": options.latency_ms,
            "cold_starts": cold_starts(options.runs),
            "with_bytecode": from_layer(options.python, options.runs) if options.python else {},
        },
        as_json=options.json,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
