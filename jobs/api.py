"""What a job sees: its inputs, its parameters, where to write, and a way to say how it goes.

A job is a module in `jobs/catalogue/` with `def run(spark, job) -> None`, and a pydantic model `Params` when it takes parameters.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
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
    """Say in a few words what is being done now; it shows in the lease and in `longhaul` commands."""
    emitter: Emitter
    written: list[Dataset] = field(default_factory=list)
    quiet: Callable[[str, str], AbstractContextManager[None]] = lambda _note, _longest: nullcontext()
    """`with job.quiet("waiting for the API", "20m"):` says that nothing may happen in there, for that long at most: until then the job is not stalled."""

    def input(self, name: str) -> str:
        """Path of an input, for any of Spark's readers: local, or on a cluster `s3://…`. What needs the files as they are finds them under `inputs[name].path`.

        Raises:
            PermanentJobError: the request has no such input, or it is compressed in a way that Spark would take for data.
        """
        if name not in self.inputs:
            raise PermanentJobError(
                f"the job needs an input {name!r}; given: {', '.join(sorted(self.inputs)) or 'none'}"
            )
        unreadable = sorted(self.inputs[name].extensions & UNREADABLE)
        if unreadable:
            raise PermanentJobError(
                f"input {name!r}: Spark does not unpack .{unreadable[0]} files: send them as gz or bz2, or unpacked"
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
        """Compute `df` and keep it for publication. `name` puts it into a folder below the output, beside the main dataset. Answers its exact row count.

        Everything that a job writes becomes visible together, and only if the job succeeds.

        Raises:
            ValueError: no usable name, or one that was written already.
        """
        folder = self.folder_of(name)
        if any(dataset.name == name for dataset in self.written):
            raise ValueError(f"dataset {name!r} was written already")
        # Counted while it is written: no second pass over the data.
        counted = Observation()
        writer = df.observe(counted, F.count(F.lit(1)).alias("rows")).write.format(format)
        if format == "csv":
            writer = writer.option("header", value=True)
        writer.options(**(options or {})).partitionBy(*partition_by).save(folder.as_uri())
        rows = int(counted.get["rows"])
        self.written.append(Dataset(name, folder, rows))
        return rows

    def folder_of(self, name: str) -> Folder:
        """The folder that becomes a dataset of the output.

        Raises:
            ValueError: no usable name.
        """
        if name != MAIN and not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no dataset name: letters, digits, _ and -, at most 64")
        return self.output_folder / ("main" if name == MAIN else f"named-{name}")

    def emit(self, *requests: Request, stage: str | None = None) -> None:
        """Ask for jobs in the next stage, which start when this one has succeeded. `stage` names it where there are several.

        A request has the fields of a message's body; `job` and `output` may be left out, `job_id` is ours to give. Without any emission the output of this job
        is the next stage's input. `job.emit()` with no request says that nothing is to follow.

        Raises:
            EmitError: a request can never run, or nothing leads there.
        """
        self.emitter.emit(requests, stage)
