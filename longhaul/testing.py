"""The fixtures for tests of jobs: a plugin of pytest, which `longhaul test` loads."""

import importlib.abc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from glob import escape
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

from longhaul.domain.claim import new_run
from longhaul.domain.lease import job_key
from longhaul.domain.message import JobMessage, Message
from longhaul.domain.paths import DataPath
from longhaul.domain.request import JobRequest
from longhaul.job import Params, Request
from longhaul.runner.emitting import Emitter
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.text_options import READ_CSV
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.loading import JOBS_VARIABLE, send_along
from longhaul.runner.resources import Resources
from longhaul.runner.running_job import RunningJob
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.mllib import add_functions_when_imported
from longhaul.runner.spark.session import build_session, session_options
from longhaul.runner.stopping import Stop
from longhaul.settings import VARIABLE, LeaseSettings, PathPolicy, RuntimeSettings, Stage

RESOURCES: Final = Resources(cores=2, memory_mib=2048)

_NO_S3: Final[Any] = None  # local paths never ask it

MakeJob = Callable[..., RunningJob[Any]]


class _OneSession:
    """A session like a task's for all tests of a run, made when it is first needed."""

    def __init__(self) -> None:
        self._ending = ExitStack()
        self._session: SparkSession | None = None

    def get(self) -> SparkSession:
        if self._session is None:
            with ExitStack() as ending:
                folder = tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)
                scratch = Path(ending.enter_context(folder))
                gateway = Gateway(scratch, RESOURCES)
                ending.callback(gateway.stop)
                gateway.attach()
                session = build_session("tests", session_options(RESOURCES, scratch))
                ending.callback(session.stop)
                add_functions_when_imported(session)
                self._session, self._ending = session, ending.pop_all()
        return self._session

    def end(self) -> None:
        self._session = None
        self._ending.close()


_SESSION: Final = _OneSession()


class _JobFinder(importlib.abc.MetaPathFinder):
    """Imports the modules of a project's jobs as a task does: when a session exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        if not Path(spec.loader.path).resolve().is_relative_to(self._folder):
            return None
        spec.loader = _JobLoader(spec.loader.name, spec.loader.path)
        return spec


class _JobLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        _SESSION.get()
        super().exec_module(module)
        send_along(module)


def pytest_configure() -> None:
    if folder := os.environ.get(JOBS_VARIABLE):
        sys.meta_path.insert(0, _JobFinder(Path(folder)))


def pytest_unconfigure() -> None:
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _JobFinder)]
    _SESSION.end()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session like a task's, one for all tests."""
    yield _SESSION.get()
    _SESSION.end()


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """A job over local files: `make_job({"flights": path}, params)`.

    A path is a file, or a folder with files, also in partition folders such as `day=2026-01-31`.
    The job runs in the project's first stage, or in the one that `stage` names.
    """
    numbers = count(1)

    def make(
        inputs: Mapping[str, Path],
        params: BaseModel | None = None,
        emitter: Emitter | None = None,
        stage: str | None = None,
    ) -> RunningJob[Any]:
        # A test may make several jobs.
        area = DiskArea(_NO_S3, tmp_path / f"job-{next(numbers)}", disk_gib={})
        staged = area.stage(
            InputListing(_NO_S3, "data"),
            # A bracket of a folder's name is no glob.
            {name: DataPath("file", "", escape(str(p.absolute()))) for name, p in inputs.items()},
            Stop(),
            begin=lambda _: None,
            advance=lambda _: None,
        )
        return RunningJob(
            params or Params(),
            staged,
            area.output,
            lambda _: None,
            emitter or _emitter(stage),
        )

    return make


@pytest.fixture
def written(spark: SparkSession) -> Callable[..., list[dict[str, Any]]]:
    """Rows that a job wrote, as dictionaries."""

    def read(
        job: RunningJob[Any], name: str = ".", format_: str = "parquet"
    ) -> list[dict[str, Any]]:
        (dataset,) = (dataset for dataset in job.written if dataset.name == name)
        reader = spark.read.format(format_)
        if format_ == "csv":  # as `job.write` writes it
            reader = reader.options(**READ_CSV)
        frame = reader.load(dataset.folder.as_uri())
        return [row.asDict() for row in frame.collect()]

    return read


@pytest.fixture
def emitted() -> Callable[[RunningJob[Any]], dict[str, list[Request]]]:
    """The requests that a job emitted, by stage."""

    def read(job: RunningJob[Any]) -> dict[str, list[Request]]:
        return job.emitter.requests or {}

    return read


def _emitter(name: str | None) -> Emitter:
    settings = _settings()
    stage = settings.stage(name) if name else settings.stages[0]
    now = datetime.now(UTC)
    message = JobMessage(
        message_id="message",
        receipt_handle="handle",
        receive_count=1,
        received_at=now,
        sent_at=now,
        first_sent_at=now,
        content=Message("{}", {}),
        request=JobRequest(job="sql", output="s3://data/output/"),
        key=job_key(stage.name, "test"),
    )
    return Emitter(settings, stage, new_run(None, message, stage, LeaseSettings(), now))


def _settings() -> RuntimeSettings:
    """The project's, which `longhaul test` sets; or those of a stage that no other follows."""
    if given := os.environ.get(VARIABLE):
        return RuntimeSettings.model_validate_json(given)
    return RuntimeSettings(
        leases_table="leases",
        stages=(Stage(queue_url="queue", dead_letter_queue_url="dead-letters"),),
        paths=PathPolicy(data_bucket="data"),
        jobs=("sql",),
        state_machine_arn="machine",
        cluster_arn="cluster",
        job_log_group="logs",
    )
