"""EMR Serverless on this machine: a job run is a spark-submit to a Spark standalone cluster, and cancelling it kills its driver.

As tasks run commands and no images, drivers and executors run with the Python and the Spark that are installed here: of what a job run names to be unpacked,
its code is taken, its packages are not. What it asks for in cores and memory gets what the small cluster has.
"""

import io
import shlex
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from threading import Lock
from typing import Any, Final, Protocol

from jobs.spark.jvm import program
from local.attendance import Attendance
from local.credentials import aws_client, child_environment
from local.http_services import LOOPBACK
from local.log_shipper import LogShipper
from local.processes import ProcessGroup
from local.spark_cluster import EXECUTOR_CORES, EXECUTOR_MEMORY_MIB, WORKERS, ClusterError, SparkCluster

_DRIVER_HEAP_MIB: Final = 512
_DRIVER_ENVIRONMENT: Final = "spark.emr-serverless.driverEnv."
_ARCHIVES: Final = "spark.archives"
# Wheels for the stack's architecture and the release's Python, neither of which need be this machine's.
_PACKAGES: Final = "packages"
# Which Python runs is ours to say.
_INTERPRETERS: Final = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
_MAX_EXECUTORS: Final = "spark.dynamicAllocation.maxExecutors"
_FAILED: Final = "Job failed, please check complete logs in configured logging destination. ExitCode: {code}."


@dataclass(frozen=True)
class JobRunSpec:
    """What a job run asks for. `arn` ends with `/applications/<id>/jobruns/<id>`."""

    arn: str
    entry_point: str
    arguments: tuple[str, ...]
    parameters: str
    log_group: str | None = None
    log_prefix: str = ""

    @property
    def id(self) -> str:
        return self.arn.rsplit("/", 1)[-1]

    @property
    def log_stream(self) -> str:
        """As EMR names that of the driver."""
        application = self.arn.split("/")[-3]
        return f"{self.log_prefix}/applications/{application}/jobs/{self.id}/SPARK_DRIVER/stderr"


class JobRunObserver(Protocol):
    """Told of a job run's life by the thread that attends it."""

    def started(self) -> None: ...

    def ended(self, state: str, details: str) -> None: ...


@dataclass
class _JobRun:
    spec: JobRunSpec
    observer: JobRunObserver
    lock: Lock = field(default_factory=Lock)
    process: ProcessGroup | None = None
    cancelled: bool = False


class EmrDriver:
    def __init__(self, *, endpoint: str, region: str, work_dir: Path, shipper: LogShipper) -> None:
        """Nothing runs before the first job run, neither the cluster."""
        self._folder = work_dir / "job-runs"
        self._children = child_environment(endpoint, region)
        self._s3: Any = aws_client("s3", endpoint=endpoint, region=region)
        self._shipper = shipper
        self.cluster = SparkCluster(work_dir / "spark")
        self._runs: Attendance[_JobRun] = Attendance()

    def run(self, spec: JobRunSpec, observer: JobRunObserver) -> None:
        """Start the job run; the observer hears how it goes."""
        self._runs.begin(spec.arn, _JobRun(spec, observer), self._attend)

    def cancel(self, arn: str) -> None:
        """End it at once, as EMR does for who asks for no grace. One that has ended stays as it is."""
        run = self._runs[arn]
        with run.lock:
            run.cancelled = True
            if run.process is not None:
                run.process.send(SIGKILL)

    def on_end(self, arn: str, callback: Callable[[], None]) -> None:
        """Call back when the job run has ended, at once if it has."""
        self._runs.on_end(arn, callback)

    def log_of(self, arn: str) -> Path:
        return self._folder / f"{arn.rsplit('/', 1)[-1]}.log"

    def close(self) -> None:
        """Cancel what runs, and end the cluster."""
        self._runs.close()
        for arn in self._runs:
            self.cancel(arn)
        # Before the wait: a job run may be waiting for it to come up.
        self.cluster.close()
        self._runs.join()
        self.cluster.close()

    def _attend(self, run: _JobRun) -> None:
        spec = run.spec
        # As for tasks: all of the log is there when the end is told.
        with self._shipper.following(self.log_of(spec.arn), spec.log_group, spec.log_stream):
            state, details = self._run_to_the_end(run)
        run.observer.ended(state, details)

    def _run_to_the_end(self, run: _JobRun) -> tuple[str, str]:
        folder = self._folder / run.spec.id
        try:
            code = self._submit(run, folder)
        except (ClusterError, OSError) as error:
            return "FAILED", f"The cluster did not start: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if run.cancelled:
            return "CANCELLED", "Job run was cancelled."
        return ("SUCCESS", "") if code == 0 else ("FAILED", _FAILED.format(code=code))

    def _submit(self, run: _JobRun, folder: Path) -> int:
        (folder / "tmp").mkdir(parents=True)
        master = self.cluster.start()
        options = _options(run.spec.parameters)
        entry = self._fetch(run.spec.entry_point, folder)
        archives = self._fetch_archives(options.pop(_ARCHIVES, ""), folder)
        confs = {"spark.master": master, **_sized(options), **({_ARCHIVES: archives} if archives else {})}
        command = [
            *(word for name, value in confs.items() for word in ("--conf", f"{name}={value}")),
            str(entry),
            *run.spec.arguments,
        ]
        with run.lock:
            if run.cancelled:
                return 0
            run.process = ProcessGroup(
                program("org.apache.spark.deploy.SparkSubmit", *command, heap_mib=_DRIVER_HEAP_MIB),
                cwd=folder,
                environment=self._environment(options, folder),
                log=self.log_of(run.spec.arn),
            )
        run.observer.started()
        return run.process.wait()

    def _environment(self, options: Mapping[str, str], folder: Path) -> dict[str, str]:
        asked = {
            name.removeprefix(_DRIVER_ENVIRONMENT): value
            for name, value in options.items()
            if name.startswith(_DRIVER_ENVIRONMENT)
        }
        named = {name: value for name, value in asked.items() if name not in _INTERPRETERS}
        # Of its own, and gone with it: a driver that is killed leaves its files.
        return (
            self.cluster.environment()
            | named
            | self._children
            | {"TMPDIR": str(folder / "tmp"), "PYTHONUNBUFFERED": "1"}
        )

    def _fetch_archives(self, archives: str, folder: Path) -> str:
        """Unpack for the driver, and name for the executors, what the job run names: `s3://…/x.zip#name,…`."""
        kept = []
        for archive in filter(None, archives.split(",")):
            uri, _, name = archive.partition("#")
            if name == _PACKAGES:
                continue
            file = self._fetch(uri, folder)
            with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as packed:
                packed.extractall(folder / name)
            kept.append(f"{file}#{name}")
        return ",".join(kept)

    def _fetch(self, uri: str, folder: Path) -> Path:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        file = folder / key.rpartition("/")[2]
        self._s3.download_file(bucket, key, str(file))
        return file


def _options(parameters: str) -> dict[str, str]:
    """The configuration that a job run was started with; nothing but `--conf` is understood here.

    Raises:
        ValueError: there is something else.
    """
    words = shlex.split(parameters)
    if any(word != "--conf" for word in words[::2]) or len(words) % 2:
        raise ValueError("SparkSubmitParameters: the embedded AWS understands --conf and nothing else")
    return dict(word.split("=", 1) for word in words[1::2])


def _sized(options: Mapping[str, str]) -> dict[str, str]:
    """What of it is for Spark itself, in the size that the cluster has."""
    executors = min(WORKERS, int(options.get(_MAX_EXECUTORS, WORKERS)))
    ours = {
        "spark.executor.cores": str(EXECUTOR_CORES),
        "spark.executor.memory": f"{EXECUTOR_MEMORY_MIB}m",
        "spark.cores.max": str(executors * EXECUTOR_CORES),
        "spark.driver.memory": f"{_DRIVER_HEAP_MIB}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.dynamicAllocation.enabled": "false",
        _MAX_EXECUTORS: str(executors),
    }
    passed = {
        name: value
        for name, value in options.items()
        if not name.startswith("spark.emr-serverless.") and name.rpartition(".")[2] not in _INTERPRETERS
    }
    return passed | ours
