"""The job that a runner hands to `run(spark, job)`: `longhaul.job.Job`, over folders and Spark."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import BaseModel
from pyspark.sql import DataFrame, DataFrameReader, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.domain.manifest import MAIN
from longhaul.job import Format, PermanentJobError, Request
from longhaul.runner.emitting import Emitter
from longhaul.runner.io.splitting import partition_of_nulls, quoted, require_columns, split
from longhaul.runner.io.staged import UNREADABLE, StagedInput
from longhaul.runner.io.text_options import writing
from longhaul.runner.io.written import Dataset, Folder, TableLayout, count_files, require_few
from longhaul.runner.spark.reading import columns_alone

if TYPE_CHECKING:
    from longhaul.runner.io.table_destination import TableDestination

# Longer than boto3 goes on trying: eight times a minute.
_CATALOG_ANSWERS_WITHIN: Final = "15m"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

ParamsT = TypeVar("ParamsT", bound=BaseModel)


@dataclass
class RunningJob(Generic[ParamsT]):
    """One attempt: what `longhaul.job.Job` promises to its job."""

    params: ParamsT
    inputs: Mapping[str, StagedInput]
    output_folder: Folder
    progress: Callable[[str], None]
    emitter: Emitter
    written: list[Dataset] = field(default_factory=list)
    quiet: Callable[[str, str], AbstractContextManager[None]] = lambda _note, _longest: (
        nullcontext()
    )
    table: "TableDestination | None" = None  # where the output goes, if to a table
    _files: int = field(default=0, init=False)

    def input(self, name: str) -> str:
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

    def read(self, name: str, reader: DataFrameReader, /) -> DataFrame:
        return columns_alone(reader, self.input(name))

    def write(
        self,
        df: DataFrame,
        name: str = MAIN,
        *,
        format: Format = "parquet",  # noqa: A002 - Spark's own word for it
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> int:
        folder = self._new_dataset(name)
        # Counted while it is written: no second pass over the data.
        counted, rows = Observation(), F.count(F.lit(1)).alias("rows")
        layout, required, in_files = None, list[str](), list[str]()
        if self.table is None:
            observed = df.observe(counted, rows)
            require_columns(partition_by, df.columns)
            in_folders = {column.lower() for column in partition_by}
            in_files = [column for column in df.columns if column.lower() not in in_folders]
            writer = observed.write.format(format).partitionBy(*partition_by)
            writer = writer.options(**writing(format, in_files)).options(**(options or {}))
        else:
            layout = self.layout(self.table, name, df.schema.jsonValue(), partition_by)
            required = [column for column in layout.required if column in df.columns]
            nulls = (
                F.count_if(F.col(quoted(column)).isNull()).alias(f"nulls{n}")
                for n, column in enumerate(required)
            )
            writer = split(df.observe(counted, rows, *nulls), layout.partition_by)
            writer = writer.options(**(options or {}))
        writer.save(folder.as_uri())
        found = counted.get
        if not found["rows"] and self.table is None and partition_by:
            # Spark writes no file, and readers would have no columns.
            empty = df.drop(*partition_by).limit(0).coalesce(1).write.format(format)
            empty = empty.options(**writing(format, in_files)).options(**(options or {}))
            empty.save(f"{folder.as_uri().rstrip('/')}/{partition_of_nulls(partition_by)}")
        without_null = frozenset(
            column for n, column in enumerate(required) if found[f"nulls{n}"] == 0
        )
        self.written.append(Dataset(name, folder, int(found["rows"]), layout, without_null))
        # Now, and not when all that comes after has been written for nothing.
        self._files += count_files(folder)
        require_few(self._files)
        return int(found["rows"])

    def layout(
        self,
        table: "TableDestination",
        dataset: str,
        schema: dict[str, Any],
        partition_by: Sequence[str],
    ) -> TableLayout:
        """How a dataset's rows are split in its table; the wait for the catalog is no stall."""
        with self.quiet("looking at the table", _CATALOG_ANSWERS_WITHIN):
            return table.layout(dataset, schema, partition_by)

    def files(self, name: str = MAIN) -> Path:
        self.require_prefix()
        folder = self._new_dataset(name)
        if not isinstance(folder, Path):
            raise PermanentJobError(
                "this job writes files of its own, which a cluster cannot: send it to another"
                " engine than emr-serverless"
            )
        folder.mkdir(parents=True)
        self.written.append(Dataset(name, folder))
        return folder

    def require_prefix(self) -> None:
        """Raises PermanentJobError if the output goes to a table, which takes no other files."""
        if self.table is not None:
            raise PermanentJobError(
                "output: this job writes files of its own, which a table cannot hold: name a prefix"
                " (s3://…)"
            )

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
        self.emitter.emit(requests, stage)
