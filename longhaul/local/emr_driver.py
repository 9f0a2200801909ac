"""EMR Serverless on this machine: a job run is a spark-submit with two executors.

Drivers and executors run with the Python and the Spark that are installed here, so archives of
packages are skipped (`provided_archives`). Cores and memory are those of `spark_programs`, whatever
the job run asks for.
"""

import io
import shlex
import shutil
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from threading import Lock
from typing import Any, Final, Protocol

from longhaul.local.credentials import (
    ADMINISTRATOR,
    Credentials,
    Lend,
    NotTrustedError,
    aws_client,
    child_environment,
    lend_none,
)
from longhaul.local.http_services import LOOPBACK
from longhaul.local.log_shipper import LogShipper
from longhaul.local.processes import ProcessGroup
from longhaul.local.spark_programs import (
    EXECUTOR_CORES,
    EXECUTOR_MEMORY_MIB,
    EXECUTORS,
    MASTER,
    NO_EXTERNAL_XML,
    spark_command,
    spark_environment,
)
from longhaul.local.supervisor import Supervisor

_SERVICE: Final = "emr-serverless"
_DRIVER_HEAP_MIB: Final = 512
_DRIVER_ENVIRONMENT: Final = "spark.emr-serverless.driverEnv."
_ARCHIVES: Final = "spark.archives"
# Not passed on: this machine's Python runs.
_INTERPRETERS: Final = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
_REGION: Final = {"AWS_REGION", "AWS_DEFAULT_REGION"}
_MAX_EXECUTORS: Final = "spark.dynamicAllocation.maxExecutors"
_FAILED: Final = (
    "Job failed, please check complete logs in configured logging destination. ExitCode: {code}."
)


@dataclass(frozen=True)
class JobRunSpec:
    """A job run as requested. `arn` ends with `/applications/<id>/jobruns/<id>`."""

    arn: str
    entry_point: str
    arguments: tuple[str, ...]
    parameters: str
    log_group: str | None = None
    log_prefix: str = ""
    role: str | None = None

    @property
    def id(self) -> str:
        return self.arn.rsplit("/", 1)[-1]

    @property
    def log_stream(self) -> str:
        """The name that EMR gives the stream of the Spark driver."""
        application = self.arn.split("/")[-3]
        return f"{self.log_prefix}/applications/{application}/jobs/{self.id}/SPARK_DRIVER/stderr"


class JobRunObserver(Protocol):
    """Called from the job run's thread."""

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
    def __init__(
        self,
        *,
        endpoint: str,
        region: str,
        work_dir: Path,
        shipper: LogShipper,
        provided_archives: Collection[str] = (),
        lend: Lend = lend_none,
    ) -> None:
        self._provided_archives = provided_archives
        self._folder = work_dir / "job-runs"
        self._endpoint = endpoint
        self._region = region
        self._lend = lend
        self._shipper = shipper
        self._runs: Supervisor[_JobRun] = Supervisor()

    def run(self, spec: JobRunSpec, observer: JobRunObserver) -> None:
        """Start the job run."""
        self._runs.start(spec.arn, _JobRun(spec, observer), self._run)

    def cancel(self, arn: str) -> None:
        """Kill the Spark driver at once, as EMR does without a grace period.

        Does nothing to a job run that has ended.
        """
        run = self._runs[arn]
        with run.lock:
            run.cancelled = True
            if run.process is not None:
                run.process.send(SIGKILL)

    def on_end(self, arn: str, callback: Callable[[], None]) -> None:
        """Call back when the job run has ended; at once if it already has."""
        self._runs.on_end(arn, callback)

    def log_of(self, arn: str) -> Path:
        return self._folder / f"{arn.rsplit('/', 1)[-1]}.log"

    def close(self) -> None:
        """Cancel every job run, and wait for its end."""
        self._runs.close()
        for arn in self._runs:
            self.cancel(arn)
        self._runs.join()

    def _run(self, run: _JobRun) -> None:
        spec = run.spec
        # Ship before the end is reported: a client that then reads the log finds all of it.
        with self._shipper.following(self.log_of(spec.arn), spec.log_group, spec.log_stream):
            state, details = self._run_to_the_end(run)
        run.observer.ended(state, details)

    def _run_to_the_end(self, run: _JobRun) -> tuple[str, str]:
        folder = self._folder / run.spec.id
        try:
            code = self._submit(run, folder)
        except NotTrustedError as error:
            return "FAILED", f"Could not assume runtime role: {error}"
        except (OSError, ModuleNotFoundError) as error:
            return "FAILED", f"The driver did not start: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if run.cancelled:
            return "CANCELLED", "Job run was cancelled."
        return ("SUCCESS", "") if code == 0 else ("FAILED", _FAILED.format(code=code))

    def _submit(self, run: _JobRun, folder: Path) -> int:
        (folder / "tmp").mkdir(parents=True)
        options = _options(run.spec.parameters)
        role = run.spec.role
        source = run.spec.arn.partition("/jobruns/")[0]
        lent = self._lend(role, run.spec.id, _SERVICE, source) if role else ADMINISTRATOR
        s3 = aws_client("s3", endpoint=self._endpoint, region=self._region, credentials=lent)
        entry = _fetch(s3, run.spec.entry_point, folder)
        archives = self._fetch_archives(s3, options.pop(_ARCHIVES, ""), folder)
        confs = {
            "spark.master": MASTER,
            **_sized(options),
            **({_ARCHIVES: archives} if archives else {}),
        }
        command = [
            *(word for name, value in confs.items() for word in ("--conf", f"{name}={value}")),
            str(entry),
            *run.spec.arguments,
        ]
        with run.lock:
            if run.cancelled:
                return 0
            run.process = ProcessGroup(
                spark_command(
                    "org.apache.spark.deploy.SparkSubmit", *command, heap_mib=_DRIVER_HEAP_MIB
                ),
                cwd=folder,
                environment=self._environment(options, folder, lent),
                log=self.log_of(run.spec.arn),
            )
        run.observer.started()
        return run.process.wait()

    def _environment(
        self, options: Mapping[str, str], folder: Path, lent: Credentials
    ) -> dict[str, str]:
        asked = {
            name.removeprefix(_DRIVER_ENVIRONMENT): value
            for name, value in options.items()
            if name.startswith(_DRIVER_ENVIRONMENT)
        }
        named = {name: value for name, value in asked.items() if name not in _INTERPRETERS}
        # EMR does not say that it sets a region: a driver has the one of its job run's parameters.
        children = child_environment(self._endpoint, self._region, lent)
        # A temporary folder that is removed with the job run: a killed driver leaves files.
        return (
            spark_environment(folder / ".spark")
            | named
            | {name: children[name] for name in children if name not in _REGION}
            | {"TMPDIR": str(folder / "tmp"), "PYTHONUNBUFFERED": "1"}
        )

    def _fetch_archives(self, s3: Any, archives: str, folder: Path) -> str:  # noqa: ANN401 - one of boto3's clients
        """Unpack the archives for the driver.

        Args:
            s3: a client of the job run's role.
            archives: the value of `spark.archives`: `s3://…/x.zip#name,…`.
            folder: where they are unpacked.

        Returns:
            the value of `spark.archives` for the executors, with local files.
        """
        kept = []
        for archive in filter(None, archives.split(",")):
            uri, _, name = archive.partition("#")
            if name in self._provided_archives:
                continue
            file = _fetch(s3, uri, folder)
            with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as packed:
                packed.extractall(folder / name)
            kept.append(f"{file}#{name}")
        return ",".join(kept)


def _fetch(s3: Any, uri: str, folder: Path) -> Path:  # noqa: ANN401 - one of boto3's clients
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    file = folder / key.rpartition("/")[2]
    s3.download_file(bucket, key, str(file))
    return file


def _options(parameters: str) -> dict[str, str]:
    """The configuration in a job run's parameters.

    Raises:
        ValueError: the parameters contain something other than `--conf`.
    """
    words = shlex.split(parameters)
    if any(word != "--conf" for word in words[::2]) or len(words) % 2:
        raise ValueError(
            "SparkSubmitParameters: the embedded AWS understands --conf and nothing else"
        )
    return dict(word.split("=", 1) for word in words[1::2])


def _sized(options: Mapping[str, str]) -> dict[str, str]:
    """The options that Spark itself gets, in the cluster's size."""
    executors = min(EXECUTORS, int(options.get(_MAX_EXECUTORS, EXECUTORS)))
    cluster = {
        "spark.executor.cores": str(EXECUTOR_CORES),
        "spark.executor.memory": f"{EXECUTOR_MEMORY_MIB}m",
        "spark.executor.extraJavaOptions": " ".join(NO_EXTERNAL_XML),
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
        if not name.startswith("spark.emr-serverless.")
        and name.rpartition(".")[2] not in _INTERPRETERS
    }
    return passed | cluster
