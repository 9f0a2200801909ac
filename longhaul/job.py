"""What a job imports: `from longhaul.job import Job, Params, PermanentJobError`.

A job is a module with `def run(spark, job)`, or `def run(job)` for one in plain Python, and a model
`Params` when it takes parameters. What `run` returns, at most 4 KiB of JSON, is its result
(docs/jobs.md).
The import loads no Spark, so that editors, type checkers and tests of plain functions need none.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, overload

from pydantic import BaseModel, ConfigDict, JsonValue

from longhaul.core.errors import PermanentJobError
from longhaul.outputs.manifest import MAIN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader

Format = Literal["parquet", "csv", "json", "orc"]
Request = Mapping[str, JsonValue]
"""The fields of a message's body."""

__all__ = [
    "ArrowStream",
    "Format",
    "Input",
    "Job",
    "Params",
    "Parent",
    "PermanentJobError",
    "Request",
]


class Params(BaseModel):
    """Base of a job's parameters: unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


ParamsT_co = TypeVar("ParamsT_co", bound=BaseModel, covariant=True)


class Input(Protocol):
    """One input of the request."""

    @property
    def path(self) -> str:
        """Where its files are, as they came: local, or on a cluster `s3://…`."""

    @property
    def extensions(self) -> frozenset[str]:
        """The last extensions of its files, without the dot."""

    @property
    def types(self) -> Mapping[str, str]:
        """Types of columns that are texts in its files, or names of folders, as in `integer`.

        Where a job of Longhaul wrote them. `Job.read` gives the columns these types.
        """


@dataclass(frozen=True)
class Parent:
    """The job that wrote an input, and its results (docs/jobs.md).

    Attributes:
        id: Its job id.
        stage: Its stage.
        run: Its run.
        attempt: The attempt whose output it is.
        result: What it returned, as JSON has it; None where that was not kept.
        rows: The exact numbers of rows that it wrote, by dataset, where they are known.
        metrics: What it measured, by name.
    """

    id: str
    stage: str
    run: int
    attempt: int
    result: JsonValue = None
    rows: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


class ArrowStream(Protocol):
    """Rows of a library with Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream of its record batches."""


class Job(Protocol[ParamsT_co]):
    """One attempt, as its job sees it."""

    @property
    def params(self) -> ParamsT_co:
        """The request's parameters, checked."""

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The request's inputs by name."""

    @property
    def parents(self) -> Mapping[str, Parent]:
        """By the input's name: the job that wrote it last, with its results.

        Of inputs that are the prefix of an output: what follows from a job, and a join, have them.
        So have tables whose rows Longhaul wrote last. It is the output that is read here, also when
        its job has run again since. Of an input from elsewhere nothing is known.
        """

    def input(self, name: str) -> str:
        """Path of an input, for any of Spark's readers: local, or on a cluster `s3://…`.

        In a job without Spark: a local folder, for `open` and every library. `inputs[name].path` is
        the same without the check of compressions.

        Raises:
            PermanentJobError: the request has no such input, or it is compressed in a way that
                Spark would read as data.
        """

    def read(self, name: str, reader: "DataFrameReader", /) -> "DataFrame":
        """An input that others wrote, through a reader of Spark's with its format and options.

        `job.read("trips", spark.read.format("parquet"))` reads what `spark.read.parquet` reads.
        But of a file's schema only the columns and their types count: what else it says of them
        may be an expression, which Spark would evaluate. Columns of CSV and of folders get the
        types that they had when a job of Longhaul wrote them.

        Raises:
            PermanentJobError: as `input`.
        """

    def write(
        self,
        df: "DataFrame | ArrowStream",
        name: str = MAIN,
        *,
        format: Format = "parquet",  # noqa: A002 - Spark's own word for it
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        part: str | None = None,
        version: str | None = None,
        output: str | None = None,
    ) -> int:
        """Compute `df`, keep it for publication, and return its exact number of rows.

        `df` is a frame of Spark's, or of a library with Arrow's streams: pyarrow (a `Table`, or a
        `RecordBatchReader` that is read batch by batch), pandas 2.2, polars, DuckDB. Of those,
        `format` is `parquet`, `csv` or `json`, and `options` have `compression` alone.

        `name` puts it into a folder below the output, beside the main dataset. Everything that a
        job writes becomes visible together, and only if the job succeeds.

        Of an output to a table, `name` becomes a table beside it. Files are Parquet whatever the
        format, with Spark's `options` for Parquet, and `partition_by` also takes `year`, `month`,
        `day` or `hour` of a column, as in `day(at)`, for a table that is new.

        `part` names a part of the dataset, which may have many. It is stored when the call
        returns: in a later attempt the same call computes nothing, and returns the same number. The
        output has the parts that the last attempt asked for, and no others. Name parts by what is
        in the data, such as a month; `version` is that of `checkpoint`.

        `output` names one of the request's `outputs`, each of which the job has to write; `name` is
        a dataset of that one then.

        Raises:
            PermanentJobError: the name cannot be used, or was written already; the request has no
                such output, the table cannot hold it, or a part has other columns than the first.
        """

    @overload
    def checkpoint(
        self, name: str, df: "DataFrame", /, *, version: str | None = None
    ) -> "DataFrame": ...

    @overload
    def checkpoint(
        self, name: str, df: "ArrowStream", /, *, version: str | None = None
    ) -> "pa.Table": ...

    def checkpoint(
        self, name: str, df: "DataFrame | ArrowStream", /, *, version: str | None = None
    ) -> "DataFrame | pa.Table":
        """Compute `df` once for all attempts, and return a frame that reads what is stored.

        A later attempt gets that frame, and computes nothing of `df`. Of a library with Arrow's
        streams it is a `pyarrow.Table`, in memory. It is stored for the same
        request, the same inputs and the same code: the job's module, what it imports from its
        folder, and requirements.txt. Who knows that a change of the code does not matter says
        `version="1"` from the beginning, and another version when it does.

        Raises:
            PermanentJobError: the name cannot be used, or was used already.
        """

    def folder(self, name: str, /, *, version: str | None = None) -> Path:
        """A local folder that outlives the attempt, for a library's own checkpoints.

        It holds what the last `save` stored. On a cluster it is on the driver's disk. `version` is
        that of `checkpoint`.

        Raises:
            PermanentJobError: the name cannot be used.
        """

    @property
    def state(self) -> dict[str, JsonValue]:
        """A small mapping that outlives the attempt, such as a cursor: at most 64 KiB of JSON.

        It is stored at `save`, and with each part and checkpoint. Other code begins without it.
        """

    def save(self) -> None:
        """Store the folders and the state as they are now, together.

        Files that did not change are not sent again. A save that is cut off leaves the one before.
        When S3 cannot be reached the job goes on, and the next call tries it again.

        Raises:
            PermanentJobError: the state is no JSON, or it is too much.
        """

    def on_stop(self, callback: Callable[[float], None], /) -> None:
        """Have `callback` called when the platform asks the task to stop.

        It gets the seconds that are left, runs in a thread of its own, and what it saves counts. It
        is not called where the attempt has no time or no right: at a kill, a cancel, a stall, or a
        lost lease.
        """

    @property
    def is_stopping(self) -> bool:
        """Whether the task has been asked to stop."""

    @property
    def id(self) -> str:
        """The job's id."""

    @property
    def run(self) -> int:
        """The run: the same for all attempts until the job ends."""

    @property
    def attempt(self) -> int:
        """The number of this attempt. It never goes down, not even in another run."""

    @property
    def key(self) -> str:
        """The same in each attempt of a run: an idempotency key for effects outside the output."""

    @property
    def deadline(self) -> datetime:
        """When the attempt's timeout is over, in aware UTC."""

    def files(self, name: str = MAIN, *, output: str | None = None) -> Path:
        """A local folder for files of any kind, which are published as `write`'s are.

        Hidden ones (`.name`, `_name`) are not. `output` is that of `write`.

        Raises:
            PermanentJobError: the job runs on a cluster, whose machines share no disk; or the
                output goes to a table, or is not in the request; or the name cannot be used, or
                was written already.
        """

    def progress(
        self, note: str, /, *, done: float | None = None, total: float | None = None
    ) -> None:
        """Say in a few words what the job does now; the lease and `longhaul` commands show it.

        `done` of `total`, in any unit, is how far it is: the progress bar goes by it from then on.

        Raises:
            ValueError: only one of the two is given, or `done` is not between 0 and `total`.
        """

    def quiet(self, note: str, longest: str, /) -> AbstractContextManager[None]:
        """`with job.quiet("waiting for the API", "20m"):` announces silence.

        For that long at most, a job that shows no progress is not stalled.
        """

    def metric(self, name: str, value: float, /) -> None:
        """Measure something of the work, such as `job.metric("bad_rows", 12)`.

        The last value of a name counts, and outlives the attempt as the state does: a job that
        counts adds up in `state`. It is kept with the output, and sent to CloudWatch when the job
        has succeeded. A value that is no finite number is not kept, nor is a name after twenty
        others; the log says so.

        Raises:
            PermanentJobError: the name cannot be used.
        """

    def emit(self, *requests: Request, stage: str | None = None) -> None:
        """Ask for jobs in the next stage. They start when this one has succeeded.

        `stage` names the stage where several follow.

        A request has the fields of a message's body. `job` and `output` may be left out; Longhaul
        gives the `job_id`. A job that never calls `emit` passes its output to the next stage.
        `job.emit()` without a request means that nothing follows.

        Raises:
            EmitError: a request can never run, or no such stage follows.
        """
