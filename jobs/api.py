"""What a job sees: its inputs, its parameters, where to write, and a way to say how it goes.

A job is a module in `jobs/catalogue/` with `def run(spark, job) -> None`, and a pydantic model
`Params` when it takes parameters.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from jobs.emitting import Emitter, Request
from jobs.io.staging import UNREADABLE, StagedInput
from jobs.io.written import Dataset, Folder
from longhaul.domain.errors import PermanentJobError
from longhaul.domain.manifest import MAIN

Format = Literal["parquet", "csv", "json", "orc"]
__all__ = ["MAIN", "Format", "Job", "Params", "PermanentJobError"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Params(BaseModel):
    """Base of a job's parameters: unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


ParamsT = TypeVar("ParamsT", bound=BaseModel)


@dataclass
class Job(Generic[ParamsT]):
    """One attempt, as its job sees it."""

    params: ParamsT
    inputs: Mapping[str, StagedInput]
    output_folder: Folder
    progress: Callable[[str], None]
    """Say in a few words what the job does now; the lease and `longhaul` commands show it."""
    emitter: Emitter
    written: list[Dataset] = field(default_factory=list)
    quiet: Callable[[str, str], AbstractContextManager[None]] = lambda _note, _longest: (
        nullcontext()
    )
    """`with job.quiet("waiting for the API", "20m"):` announces silence.

    For that long at most, a job that shows no progress is not stalled.
    """

    def input(self, name: str) -> str:
        """Path of an input, for any of Spark's readers: local, or on a cluster `s3://…`.

        `inputs[name].path` is the same without the check of compressions.

        Raises:
            PermanentJobError: the request has no such input, or it is compressed in a way that
                Spark would read as data.
        """
        if name not in self.inputs:
            raise PermanentJobError(
                f"the job needs an input {name!r}; given:"
                f" {', '.join(sorted(self.inputs)) or 'none'}"
            )
        unreadable = sorted(self.inputs[name].extensions & UNREADABLE)
        if unreadable:
            raise PermanentJobError(
                f"input {name!r}: Spark does not unpack .{unreadable[0]} files: send them as gz or"
                " bz2, or unpacked"
            )
        return self.inputs[name].path

    def write(
        self,
        df: DataFrame,
        name: str = MAIN,
        *,
        format: Format = "parquet",  # noqa: A002 - Spark's own word for it
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> int:
        """Compute `df`, keep it for publication, and return its exact number of rows.

        `name` puts it into a folder below the output, beside the main dataset. Everything that a
        job writes becomes visible together, and only if the job succeeds.

        Raises:
            ValueError: the name cannot be used, or was written already.
        """
        folder = self._new_dataset(name)
        # Counted while it is written: no second pass over the data.
        counted = Observation()
        writer = df.observe(counted, F.count(F.lit(1)).alias("rows")).write.format(format)
        if format == "csv":
            writer = writer.option("header", value=True)
        writer.options(**(options or {})).partitionBy(*partition_by).save(folder.as_uri())
        rows = int(counted.get["rows"])
        self.written.append(Dataset(name, folder, rows))
        return rows

    def files(self, name: str = MAIN) -> Path:
        """A local folder for files of any kind, which are published as `write`'s are.

        Hidden ones (`.name`, `_name`) are not.

        Raises:
            PermanentJobError: the job runs on a cluster, whose machines share no disk.
            ValueError: the name cannot be used, or was written already.
        """
        folder = self._new_dataset(name)
        if not isinstance(folder, Path):
            raise PermanentJobError(
                "this job writes files of its own, which a cluster cannot: send it to another"
                " engine than emr-serverless"
            )
        folder.mkdir(parents=True)
        self.written.append(Dataset(name, folder))
        return folder

    def folder_of(self, name: str) -> Folder:
        """The folder that becomes a dataset of the output.

        Raises:
            ValueError: the name cannot be used.
        """
        if name != MAIN and not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no dataset name: letters, digits, _ and -, at most 64")
        return self.output_folder / ("main" if name == MAIN else f"named-{name}")

    def _new_dataset(self, name: str) -> Folder:
        if any(dataset.name == name for dataset in self.written):
            raise ValueError(f"dataset {name!r} was written already")
        return self.folder_of(name)

    def emit(self, *requests: Request, stage: str | None = None) -> None:
        """Ask for jobs in the next stage. They start when this one has succeeded.

        `stage` names the stage where several follow.

        A request has the fields of a message's body. `job` and `output` may be left out; Longhaul
        gives the `job_id`. A job that never calls `emit` passes its output to the next stage.
        `job.emit()` without a request means that nothing follows.

        Raises:
            EmitError: a request can never run, or no such stage follows.
        """
        self.emitter.emit(requests, stage)
