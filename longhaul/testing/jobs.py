"""A job over local files, and what it wrote."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from glob import escape
from itertools import count
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pyspark.sql import SparkSession

from longhaul.domain.claim import new_run
from longhaul.domain.lease import job_key
from longhaul.domain.message import JobMessage, Message
from longhaul.domain.paths import DataPath
from longhaul.domain.request import JobRequest
from longhaul.job import Params
from longhaul.runner.emitting import Emitter
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.text_options import READ_CSV
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.running_job import RunningJob
from longhaul.runner.stopping import Stop
from longhaul.settings import VARIABLE, LeaseSettings, PathPolicy, RuntimeSettings, Stage

_NO_S3: Final[Any] = None  # local paths never ask it


class JobMaker:
    """`longhaul.testing.MakeJob`, with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def __call__(
        self,
        inputs: Mapping[str, Path],
        params: BaseModel | None = None,
        emitter: Emitter | None = None,
        stage: str | None = None,
    ) -> RunningJob[Any]:
        # A test may make several jobs.
        area = DiskArea(_NO_S3, self._folder / f"job-{next(self._numbers)}", disk_gib={})
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


class WrittenRows:
    """`longhaul.testing.Written`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(
        self, job: RunningJob[Any], name: str = ".", format_: str = "parquet"
    ) -> list[dict[str, Any]]:
        (dataset,) = (dataset for dataset in job.written if dataset.name == name)
        reader = self._spark.read.format(format_)
        if format_ == "csv":  # as `job.write` writes it
            reader = reader.options(**READ_CSV)
        frame = reader.load(dataset.folder.as_uri())
        return [row.asDict() for row in frame.collect()]


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
