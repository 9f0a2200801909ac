"""A job over local files, and what it wrote."""

import os
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from glob import escape
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from pydantic import BaseModel, JsonValue

from longhaul.core.claim import new_run
from longhaul.core.clients import SystemClock
from longhaul.core.lease import AttemptId, job_key
from longhaul.core.message import JobMessage, Message
from longhaul.core.places import DataPath
from longhaul.core.request import JobRequest
from longhaul.core.results import kept_value
from longhaul.core.settings import VARIABLE, LeaseSettings, PathPolicy, RuntimeSettings, Stage
from longhaul.job import Params, Parent
from longhaul.runner.emitting import Emitter
from longhaul.runner.io.frame import READ_CSV
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.saved_files import DiskFiles
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.io.written import Dataset, title_of
from longhaul.runner.reporting import Progress
from longhaul.runner.running_job import RunningJob
from longhaul.runner.saving import Saving
from longhaul.runner.stopping import Stop
from longhaul.saved.record import Record, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_NO_S3: Final[Any] = None  # local paths never ask it


class JobMaker:
    """`longhaul.testing.MakeJob`, with its files in a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._numbers = count(1)

    def __call__(  # noqa: PLR0913 - what a test may say of a job
        self,
        inputs: Mapping[str, Path],
        params: BaseModel | None = None,
        emitter: Emitter | None = None,
        stage: str | None = None,
        after: RunningJob[Any] | None = None,
        parents: Mapping[str, Parent] | None = None,
        environment: Mapping[str, str] | None = None,
        outputs: Collection[str] = (),
        *,
        plain: bool = False,
    ) -> RunningJob[Any]:
        self._set(environment or {})
        # A test may make several jobs.
        number = next(self._numbers)
        folder = self._folder / f"job-{number}"
        area = DiskArea(_NO_S3, folder, disk_gib={})
        staged = area.stage(
            InputListing(_NO_S3, "data"),
            # A bracket of a folder's name is no glob.
            {name: DataPath("file", "", escape(str(p.absolute()))) for name, p in inputs.items()},
            Moving(Stop()),
        )
        saving = _saving(folder, number, after)
        return RunningJob(
            params or Params(),
            staged,
            area.output,
            emitter or _emitter(stage),
            saving,
            reports=folder / "reports",
            parents_now=lambda: parents or {},
            outputs=dict.fromkeys(outputs),
            is_plain=plain,
            id="test",
            attempt=number,
            key="test-1",
            deadline=datetime.now(UTC) + timedelta(hours=1),
        )

    def _set(self, environment: Mapping[str, str]) -> None:
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)
            spark = sys.modules.get("pyspark.sql")
            if spark and (session := spark.SparkSession.getActiveSession()):
                # As `longhaul.runner.spark.driver` does.
                self._monkeypatch.setitem(session.sparkContext.environment, name, value)


class WrittenRows:
    """`longhaul.testing.Written`."""

    def __init__(self, spark: "Callable[[], SparkSession]") -> None:
        self._spark = spark

    def __call__(
        self,
        job: RunningJob[Any],
        name: str = ".",
        format_: str = "parquet",
        *,
        output: str = "",
    ) -> list[dict[str, Any]]:
        title = title_of(name, output)
        datasets = [dataset for dataset in job.written if dataset.title == title]
        if not datasets:
            raise ValueError(f"the job has written no dataset {title!r}")
        rows = _rows_of_files if job.is_plain else self._rows
        return [row for dataset in datasets for row in rows(dataset, format_)]

    def _rows(self, dataset: Dataset, format_: str) -> list[dict[str, Any]]:
        from longhaul.runner.spark.reading import typed  # noqa: PLC0415 - imports PySpark

        reader = self._spark().read.format(format_)
        if format_ == "csv":  # as `job.write` writes it
            reader = reader.options(**READ_CSV)
        frame = typed(reader.load(dataset.folder.as_uri()), dataset.types, name=dataset.title)
        return [row.asDict() for row in frame.collect()]


def _rows_of_files(dataset: Dataset, format_: str) -> list[dict[str, Any]]:
    """The rows, without Spark."""
    import pyarrow as pa  # noqa: PLC0415 - for these jobs alone
    from pyarrow import csv  # noqa: PLC0415 - as above
    from pyarrow import dataset as datasets  # noqa: PLC0415 - as above

    from longhaul.runner.plain.types import ARROW  # noqa: PLC0415 - as above

    if not isinstance(dataset.folder, Path):
        raise TypeError("a job without Spark writes to a disk")
    how: Any = format_
    if format_ == "csv":  # as `job.write` writes it
        how = datasets.CsvFileFormat(
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    found = datasets.dataset(str(dataset.folder), format=how, partitioning="hive")
    # Arrow goes by what the texts of CSV and of folders look like.
    parted = {each.name.partition("=")[0] for each in dataset.folder.rglob("*=*") if each.is_dir()}
    schema = pa.schema(
        (each.name, ARROW.get(dataset.types.get(each.name, ""), pa.string()))
        if format_ == "csv" or each.name in parted
        else each
        for each in found.schema
    )
    folders = pa.schema(each for each in schema if each.name in parted)
    found = datasets.dataset(
        str(dataset.folder),
        schema,
        format=how,
        partitioning=datasets.partitioning(folders, flavor="hive"),
    )
    rows: list[dict[str, Any]] = found.to_table().to_pylist()
    return rows


def kept_result(value: object) -> JsonValue:
    """`longhaul.testing.KeptResult`."""
    kept, problem = kept_value(value)
    if problem:
        raise ValueError(f"the result would not be kept: {problem}")
    found: JsonValue = kept
    return found


class _LocalRecords:
    """`longhaul.runner.saving.Records`, in memory."""

    def __init__(self, record: Record | None) -> None:
        self.record = record

    def load(self) -> Record | None:
        return self.record

    def put(self, record: Record) -> None:
        self.record = record

    def drop(self, objects: Collection[str]) -> None:
        """The folder of the test goes as a whole."""


class _LocalObjects:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def store(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            place = self._folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            copyfile(file, place)

    def bring(self, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            copyfile(self._folder / name, file)

    def folder(self, place: str) -> Path:
        return self._folder / place


def _saving(folder: Path, number: int, after: RunningJob[Any] | None) -> Saving:
    """What a job stores stays in the test's folder, for the job that comes `after` it."""
    before = after.saving.records.load() if after else None
    objects = _LocalObjects(folder.parent / "stored")
    saving = Saving(
        records=_LocalRecords(before),
        files=DiskFiles(objects, folder / "saved"),
        objects=objects,
        attempt=AttemptId("main#test", 1, number),
        work=Work("test", "", "", {}),
        folder=folder / "folders",
        clock=SystemClock(),
        stop=Stop(),
        progress=Progress(),
    )
    saving.begin()
    return saving


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
