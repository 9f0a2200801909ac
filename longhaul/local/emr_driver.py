"""EMR Serverless on this machine: a job run is a spark-submit with two executors.

Drivers and executors run with the Python and the Spark that are installed here, so archives of
packages are skipped (`provided_archives`). Cores and memory are those of `spark_programs`, whatever
the job run asks for.
"""

import io
import shlex
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final, TypeAlias

from longhaul.local.credentials import ADMINISTRATOR, Credentials, NotTrustedError
from longhaul.local.host import Host
from longhaul.local.processes import ProcessGroup
from longhaul.local.running import LOOPBACK
from longhaul.local.spark_programs import (
    EXECUTOR_CORES,
    EXECUTOR_MEMORY_MIB,
    EXECUTORS,
    MASTER,
    NO_EXTERNAL_XML,
    spark_command,
    spark_environment,
)
from longhaul.local.supervised import Run, Spec, Supervisor

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


@dataclass(frozen=True, kw_only=True)
class JobRunSpec(Spec):
    """A job run as requested. `arn` ends with `/applications/<id>/jobruns/<id>`."""

    entry_point: str
    arguments: tuple[str, ...]
    parameters: str

    @property
    def log_stream(self) -> str:
        application = self.arn.split("/")[-3]
        return f"{self.log_prefix}/applications/{application}/jobs/{self.id}/SPARK_DRIVER/stderr"


@dataclass(frozen=True)
class JobRunEnd:
    """The state in which a job run ended, and EMR's details of it."""

    state: str
    details: str = ""


_JobRun: TypeAlias = Run[JobRunSpec, JobRunEnd]


class EmrDriver(Supervisor[JobRunSpec, JobRunEnd]):
    def __init__(self, host: Host, *, provided_archives: Collection[str] = ()) -> None:
        super().__init__(host, "job-runs")
        self._provided_archives = provided_archives

    def _break_off(self, spec: JobRunSpec, process: ProcessGroup) -> None:
        """EMR has no grace period."""
        del spec
        process.send(SIGKILL)

    def _run_to_the_end(self, run: _JobRun, temporary: Path) -> JobRunEnd:
        try:
            code = self._submit(run, temporary)
        except NotTrustedError as error:
            return JobRunEnd("FAILED", f"Could not assume runtime role: {error}")
        except (OSError, ModuleNotFoundError) as error:
            return JobRunEnd("FAILED", f"The driver did not start: {error}")
        if run.stop_reason is not None:
            return JobRunEnd("CANCELLED", "Job run was cancelled.")
        return JobRunEnd("SUCCESS") if code == 0 else JobRunEnd("FAILED", _FAILED.format(code=code))

    def _submit(self, run: _JobRun, folder: Path) -> int | None:
        folder.mkdir(parents=True)
        (folder / "tmp").mkdir()
        options = _options(run.spec.parameters)
        role = run.spec.role
        source = run.spec.arn.partition("/jobruns/")[0]
        lent = self.host.lend(role, run.spec.id, _SERVICE, source) if role else ADMINISTRATOR
        s3 = self.host.client("s3", lent)
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
        process = self._launch(
            run,
            spark_command(
                "org.apache.spark.deploy.SparkSubmit", *command, heap_mib=_DRIVER_HEAP_MIB
            ),
            cwd=folder,
            environment=self._environment(options, folder, lent),
        )
        return process.wait() if process is not None else None

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
        children = self.host.environment(lent)
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
