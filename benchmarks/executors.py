"""What one job moves as it grows beyond a machine: counts of tasks and bytes, and no times.

    .venv/bin/python -m benchmarks.executors [--mb 64] [--files 8] [--json]

The same job, which sorts all its rows by one column, as a Fargate task with two cores, and as the
driver of a cluster with two and with four executors of one core. Each is the runner of its engine,
with a lease of its own. The counts are those of Spark's event log: what its tasks read and wrote,
and what came to them from another executor. All processes are on one machine, so seconds would say
nothing about machines.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from benchmarks import ours
from benchmarks.spark_throughput import RESOURCES, write_rows
from benchmarks.work import SCHEMA
from longhaul.config.sources import sources
from longhaul.engines.emr_serverless import runner
from longhaul.local.credentials import child_environment
from longhaul.local.http_services import LOOPBACK
from longhaul.local.processes import ProcessGroup
from longhaul.local.spark_cluster import EXECUTOR_CORES, EXECUTOR_MEMORY_MIB, SparkCluster
from longhaul.local.spark_programs import spark_command
from longhaul.settings import VARIABLE, EmrApplication

_MB: Final = 1_000_000
_EXECUTORS: Final = (2, 4)
_DRIVER_HEAP_MIB: Final = 512
_ROWS: Final = f"s3://{ours.BUCKET}/rows/"
_CODE: Final = f"s3://{ours.BUCKET}/jobs/sort.py"
_SORT: Final = f"""
def run(spark, job):
    rows = spark.read.schema({SCHEMA!r}).csv(job.input("rows"))
    job.write(rows.orderBy("note"))
"""
# The disk stands for the store that executors share, as in `longhaul up`.
_APPLICATION: Final = EmrApplication(
    application_arn="arn:aws:emr-serverless:us-east-1:123456789012:/applications/benchmark",
    work_area="file:",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=64, help="size of the input (default: 64)")
    parser.add_argument("--files", type=int, default=8, help="files of the input (default: 8)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        counts = _counted(Path(name), arguments.mb * _MB, arguments.files)
    if arguments.json:
        sys.stdout.write(json.dumps(counts) + "\n")
        return 0
    for side, found in counts.items():
        words = ", ".join(f"{what} {number:,}" for what, number in found.items())
        sys.stdout.write(f"{side:16} {words}\n")
    return 0


def _counted(folder: Path, size: int, files: int) -> dict[str, dict[str, int]]:
    """By the name of a side its counts."""
    rows, events = folder / "rows", folder / "events"
    write_rows(rows, size, files)
    logged = {name: str(value) for name, value in _logging(events / "machine").items()}
    options = " ".join(f"-D{name}={value}" for name, value in logged.items())
    counts = {}
    with ours.tasks(folder, RESOURCES, {"JAVA_TOOL_OPTIONS": options}) as tasks:
        tasks.s3.put_object(Bucket=ours.BUCKET, Key="jobs/sort.py", Body=_SORT.encode())
        for file in sorted(rows.iterdir()):
            tasks.s3.upload_file(str(file), ours.BUCKET, f"rows/{file.name}")
        tasks.run(_CODE, {"rows": _ROWS})
        counts["one machine"] = counted(_events(events / "machine"))
        cluster = SparkCluster(folder / "spark")
        try:
            for executors in _EXECUTORS:
                logs = events / str(executors)
                _submit(tasks, cluster, executors, folder / f"driver-{executors}", logs)
                counts[f"{executors} executors"] = counted(_events(logs))
        finally:
            cluster.close()
    return counts


def _submit(
    tasks: ours.TaskRunner, cluster: SparkCluster, executors: int, folder: Path, logs: Path
) -> None:
    """Run the job on the cluster, as EMR Serverless submits it.

    Raises:
        RuntimeError: the driver failed; the message is the end of its log.
    """
    folder.mkdir()
    settings = ours.SETTINGS.model_copy(update={"emr_serverless": _APPLICATION})
    confs = {
        "spark.master": cluster.start(),
        "spark.executor.cores": EXECUTOR_CORES,
        "spark.executor.memory": f"{EXECUTOR_MEMORY_MIB}m",
        "spark.executorEnv.PYTHONPATH": sources(),
        "spark.cores.max": executors * EXECUTOR_CORES,
        "spark.dynamicAllocation.maxExecutors": executors,
        # All of them are there before the first task: else the first ones do most of it.
        "spark.scheduler.minRegisteredResourcesRatio": 1,
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.driver.memory": f"{_DRIVER_HEAP_MIB}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        # Executors stand for machines, which do not share their disks.
        "spark.shuffle.readHostLocalDisk": "false",
        **_logging(logs),
    }
    words = [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
    command = [*words, runner.__file__, quote(settings.model_dump_json(), safe="")]
    driver = ProcessGroup(
        spark_command("org.apache.spark.deploy.SparkSubmit", *command, heap_mib=_DRIVER_HEAP_MIB),
        cwd=folder,
        environment=cluster.environment()
        | child_environment(tasks.aws.endpoint, tasks.aws.region)
        | tasks.claim({"job": _CODE, "inputs": {"rows": _ROWS}, "output": ours.new_output()})
        | {"PYTHONPATH": str(sources()), VARIABLE: settings.model_dump_json()},
        log=folder / "log",
    )
    if driver.wait() != 0:
        raise RuntimeError(f"the driver failed:\n{(folder / 'log').read_text()[-4000:]}")


def _logging(folder: Path) -> dict[str, Any]:
    """Spark's settings for an event log in the folder, which is made."""
    folder.mkdir(parents=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    """The events of the one application whose log is in the folder."""
    (log,) = (each for each in folder.iterdir() if not each.name.startswith("."))
    with log.open() as lines:
        yield from map(json.loads, lines)


def counted(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The tasks of an application that ended well, where they ran, and the bytes they moved."""
    ended = [
        each
        for each in events
        if each["Event"] == "SparkListenerTaskEnd" and not each["Task Info"]["Failed"]
    ]
    metrics = [each["Task Metrics"] for each in ended]
    return {
        "tasks": len(ended),
        "executors": len({each["Task Info"]["Executor ID"] for each in ended}),
        "bytes_read": sum(each["Input Metrics"]["Bytes Read"] for each in metrics),
        "bytes_shuffled": sum(
            each["Shuffle Write Metrics"]["Shuffle Bytes Written"] for each in metrics
        ),
        "bytes_from_other_executors": sum(
            each["Shuffle Read Metrics"]["Remote Bytes Read"] for each in metrics
        ),
        "bytes_written": sum(each["Output Metrics"]["Bytes Written"] for each in metrics),
    }


if __name__ == "__main__":
    sys.exit(main())
