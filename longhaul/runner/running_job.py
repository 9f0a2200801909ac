"""The job that a runner hands to `run`: `longhaul.job.Job`, over folders and frames."""

import hashlib
import json
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import BaseModel, JsonValue

from longhaul.core.background import Threads
from longhaul.core.durations import parse_duration_s
from longhaul.core.places import has_controls
from longhaul.core.ports import Timer
from longhaul.core.results import MAX_METRICS, metric_problem
from longhaul.job import Format, Parent, PermanentJobError, Request
from longhaul.outputs.manifest import MAIN
from longhaul.runner.emitting import Emitter
from longhaul.runner.frames import frame_of
from longhaul.runner.io.frame import AS_THEY_ARE, Frame, WriteOptions, types_lost
from longhaul.runner.io.staged import UNREADABLE, StagedInput, local_path, parted_text
from longhaul.runner.io.written import (
    Dataset,
    Folder,
    TableLayout,
    count_files,
    field_of,
    require_few,
    title_of,
)
from longhaul.saved.record import CHECKPOINTS, SavedDataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

    from longhaul.runner.io.table_destination import TableDestination
    from longhaul.runner.saving import Saving

# Longer than boto3 goes on trying: eight times a minute.
_CATALOG_ANSWERS_WITHIN: Final = "15m"
_MAX_LABEL: Final = 200
_MAX_METRIC: Final = 2.0**360  # CloudWatch takes no larger value
_PARTS_ALONE: Final = "write all of it in parts, or all in one call without `part`"
_WHOLE: Final = ""
"""In the place of a part's name, of a dataset that is not in parts."""
_NO_SHAPE: Final = ("", "")
_NO_END: Final = datetime.max.replace(tzinfo=UTC)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

logger = logging.getLogger(__name__)

Shape = tuple[str, str]
"""The columns of a part, as Spark's JSON of a schema, and its format with what else decides it."""

ParamsT = TypeVar("ParamsT", bound=BaseModel)


@dataclass(frozen=True)
class Target:
    """A dataset of an output, to which the job writes. `table`: where it goes, if to a table."""

    name: str
    output: str  # empty: the main one
    table: "TableDestination | None"

    @property
    def title(self) -> str:
        return title_of(self.name, self.output)


@dataclass
class RunningJob(Generic[ParamsT]):
    """One attempt: what `longhaul.job.Job` promises to its job."""

    params: ParamsT
    staged: Mapping[str, StagedInput]
    output_folder: Folder
    emitter: Emitter
    saving: "Saving"  # what it stores for the next attempt
    written: list[Dataset] = field(default_factory=list)
    table: "TableDestination | None" = None  # where the output goes, if to a table
    # The request's further outputs by name, each with its table, if it goes to one.
    outputs: Mapping[str, "TableDestination | None"] = field(default_factory=dict)
    # What the job knows of itself.
    id: str = "job"
    run: int = 1
    attempt: int = 1
    key: str = "job-1"
    deadline: datetime = _NO_END
    every: Callable[[float, Callable[[], None]], Timer] = Threads().every
    stop_callbacks: list[Callable[[float], None]] = field(default_factory=list)
    has_ended: bool = False
    asks_for_stop: bool = False
    knows_of_stop: bool = False
    hears_of_stop: bool = False  # as soon as it asks
    # By input, as it is listed now.
    parents_now: Callable[[], Mapping[str, Parent]] = dict
    reports: Path = Path()  # a local folder for the files in which a script says its results
    # Of its stage, with the values of secrets: for Python processes that Spark starts.
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    result: Any = None  # what its `run` returned
    is_plain: bool = False  # it has no Spark, and its inputs are paths for `open`
    frame_of: Callable[[Any], Frame] = frame_of
    _files: int = field(default=0, init=False)
    # What it has begun to write, by dataset and part, as a record has it.
    _shapes: dict[str, dict[str, Shape]] = field(default_factory=dict, init=False)
    _layouts: dict[str, TableLayout] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _process: int = field(default_factory=os.getpid, init=False)

    @property
    def inputs(self) -> Mapping[str, StagedInput]:
        return {
            name: replace(each, path=self.path_of_input(name)) for name, each in self.staged.items()
        }

    def input(self, name: str) -> str:
        known = self.staged
        if name not in known:
            raise PermanentJobError(
                f"the job needs an input {name!r}; given: {', '.join(sorted(known)) or 'none'}"
            )
        unreadable = sorted(known[name].extensions & UNREADABLE)
        if unreadable and not self.is_plain:
            raise PermanentJobError(
                f"input {name!r}: Spark does not unpack .{unreadable[0]} files: send them as gz or"
                " bz2, or unpacked"
            )
        return self.path_of_input(name)

    def path_of_input(self, name: str) -> str:
        """Where an input is that the request names."""
        found = self.staged[name]
        if self.is_plain:
            return local_path(found.path)
        if len(found.parted_by) > 1:
            raise PermanentJobError(
                f"input {name!r}: some files are parted by {parted_text(found.parted_by)}: Spark"
                " would read only some of them: name each kind by an input of its own"
            )
        return found.path

    def read(self, name: str, reader: "DataFrameReader", /) -> "DataFrame":
        from longhaul.runner.spark.reading import columns_alone, typed  # noqa: PLC0415 - imports PySpark

        frame = columns_alone(reader, self.input(name))
        return typed(frame, self.staged[name].types, name=name)

    def write(
        self,
        df: Any,  # noqa: ANN401 - what `frame_of` takes
        name: str = MAIN,
        *,
        format: Format = "parquet",  # noqa: A002 - Spark's own word for it
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        part: str | None = None,
        version: str | None = None,
        output: str | None = None,
    ) -> int:
        self._require_own_process("write")
        target = self._target(name, output)
        if isinstance(partition_by, str):  # a sequence too: of its letters
            raise PermanentJobError(
                f"partition_by: {partition_by!r} is a text: name the columns in a list, as"
                f" [{partition_by!r}]"
            )
        how = WriteOptions(format, tuple(partition_by), options or {})
        if part is not None:
            return self._write_part(df, target, part, version, how)
        if version is not None:
            raise PermanentJobError("version: only a part of an output has one")
        with self._begun(target, "write all its rows in one call, or in parts (part=…)") as folder:
            dataset = self._write_dataset(self.frame_of(df), target, folder, how)
        self.written.append(dataset)
        # Now, and not when all that comes after has been written for nothing.
        self._count_files(count_files(dataset.folder))
        return dataset.rows or 0

    @contextmanager
    def _begun(self, target: Target, instead: str) -> Iterator[Folder]:
        """The folder of a dataset that one call writes, as a whole; also threads get it once."""
        folder = self.folder_of(target.name, target.output)
        again = (
            f"{_in_words(target.title)} was written already: {instead}, or give the second one"
            " another name"
        )
        with self._alone(target.title, _WHOLE, _NO_SHAPE, again):
            yield folder

    @contextmanager
    def _alone(self, dataset: str, part: str, shape: Shape, again: str) -> Iterator[None]:
        """One call alone writes a part, or a checkpoint. After an error it may be tried again."""
        with self._lock:
            parts = self._shapes.setdefault(dataset, {})
            if part in parts:
                raise PermanentJobError(again)
            if parts and (part == _WHOLE or _WHOLE in parts):
                raise PermanentJobError(
                    f"{_in_words(dataset)} was written already,"
                    f" {'and not in' if _WHOLE in parts else 'in'} parts: {_PARTS_ALONE}"
                )
            parts[part] = shape
        try:
            yield
        except BaseException:
            with self._lock:
                del parts[part]
            raise

    def _write_part(
        self, data: object, target: Target, part: str, version: str | None, how: WriteOptions
    ) -> int:
        _require_label("part", part)
        _require_version(version)
        frame = self.frame_of(data)
        # Of a table all files are Parquet, and it has partitions of its own.
        shape = frame.columns, "" if target.table else how.to_json()
        again = (
            f"part {part!r} of {_in_words(target.title)} was written already: write all its rows in"
            " one call, or give the second one another name"
        )
        with self._alone(target.title, part, shape, again):
            self._require_alike(target.title, part, shape)
            self.folder_of(target.name, target.output)  # raises for a wrong name
            saved, is_stored = self.saving.once(
                target.title,
                part,
                version,
                _digest(*shape),
                lambda folder: self._write_dataset(frame, target, folder, how),
                lambda each: self._fits_table(target, each, frame.columns, how.partition_by),
            )
            if saved.columns != _digest(*shape):
                raise PermanentJobError(
                    f"output: part {part!r} was stored with other columns, or in another format,"
                    " than it has now: name another version of it"
                )
            dataset = self._of_part(saved, target, frame.columns, how, is_stored=is_stored)
            with self._lock:
                self._count_files(len(saved.files) if is_stored else count_files(dataset.folder))
                self.written.append(dataset)
        return saved.rows

    def _require_alike(self, dataset: str, part: str, shape: Shape) -> None:
        """Raises PermanentJobError unless it has the columns of the dataset's first part."""
        with self._lock:
            first, (columns, way) = next(iter(self._shapes[dataset].items()))
        if columns != shape[0]:
            raise PermanentJobError(
                f"output: part {part!r} has other columns than part {first!r}:"
                f" {', '.join(_differing(columns, shape[0]))}"
            )
        if way != shape[1]:
            raise PermanentJobError(
                f"output: part {part!r} has another format, other partitions or options than part"
                f" {first!r}"
            )

    def _fits_table(
        self, target: Target, stored: SavedDataset, schema: str, partition_by: Sequence[str]
    ) -> bool:
        """Whether a part was split as its table is by now, looked at once in an attempt."""
        if target.table is None:
            return True
        title = target.title
        if title not in self._layouts:
            self._layouts[title] = self.layout(
                target.table, target.name, json.loads(schema), partition_by
            )
        layout = self._layouts[title]
        return (stored.partition_by, stored.required) == (layout.partition_by, layout.required)

    def _of_part(
        self,
        saved: SavedDataset,
        target: Target,
        schema: str,
        how: WriteOptions,
        *,
        is_stored: bool,
    ) -> Dataset:
        """The part as the output has it."""
        files = self.saving.files
        if saved.partition_by is not None:
            layout = TableLayout(schema, saved.partition_by, saved.required)
            folder = files.bring(saved.place, saved.files)
            without_null = frozenset(saved.without_null)
            return Dataset(
                target.name, folder, saved.rows, layout, without_null, output=target.output
            )
        folder_of = files.published_from if is_stored else files.folder
        return Dataset(
            target.name,
            folder_of(saved.place),
            saved.rows,
            stored=saved.files if is_stored else None,
            types=types_lost(schema, how),
            output=target.output,
        )

    def _count_files(self, count: int) -> None:
        self._files += count
        require_few(self._files)

    def _write_dataset(
        self, frame: Frame, target: Target, folder: Folder, how: WriteOptions
    ) -> Dataset:
        """Compute the frame, and write it into the folder."""
        name, output = target.name, target.output
        if target.table is None:
            types = types_lost(frame.columns, how)
            return Dataset(name, folder, frame.write(folder, how), types=types, output=output)
        columns: dict[str, Any] = json.loads(frame.columns)
        layout = self.layout(target.table, name, columns, how.partition_by)
        rows, without_null = frame.write_for_table(folder, layout, how.options)
        return Dataset(name, folder, rows, layout, without_null, output=output)

    def checkpoint(
        self,
        name: str,
        df: Any,  # noqa: ANN401 - what `frame_of` takes
        /,
        *,
        version: str | None = None,
    ) -> Any:  # noqa: ANN401 - as `Frame.stored` returns it
        self._require_own_process("checkpoint")
        _require_name("checkpoint", name)
        _require_version(version)
        frame = self.frame_of(df)
        again = (
            f"checkpoint {name!r} was used already: use the frame that the first call returned, or"
            " give the second one another name"
        )
        with self._alone(CHECKPOINTS, name, _NO_SHAPE, again):
            saved, _ = self.saving.once(
                CHECKPOINTS,
                name,
                version,
                frame.columns,
                lambda folder: Dataset(MAIN, folder, frame.write(folder, AS_THEY_ARE)),
            )
            folder = self.saving.files.bring(saved.place, saved.files)
            return frame.stored(folder, saved.columns)

    def folder(self, name: str, /, *, version: str | None = None) -> Path:
        _require_name("folder", name)
        _require_version(version)
        return self.saving.job_folder(name, version)

    @property
    def state(self) -> dict[str, JsonValue]:
        return self.saving.state

    @property
    def metrics(self) -> dict[str, float]:
        return self.saving.metrics

    def save(self) -> None:
        self._require_own_process("save")
        self.saving.save()

    def progress(
        self, note: str, /, *, done: float | None = None, total: float | None = None
    ) -> None:
        self._require_own_process("progress")
        self.saving.progress.say(note, done=done, total=total)

    def remark(self, note: str) -> None:
        """Say something that is no progress."""
        self.saving.progress.remark(note)

    @contextmanager
    def quiet(self, note: str, longest: str, /) -> Iterator[None]:
        until = self.saving.clock.now() + timedelta(seconds=parse_duration_s(longest))
        before = self.saving.progress.note
        self.progress(note)
        try:
            with self.saving.progress.quiet(until):
                yield
        finally:
            self.progress(before)

    def on_stop(self, callback: Callable[[float], None], /) -> None:
        self.stop_callbacks.append(callback)

    @property
    def is_stopping(self) -> bool:
        self.asks_for_stop = True
        self.knows_of_stop = self.hears_of_stop
        return self.knows_of_stop

    @cached_property
    def parents(self) -> Mapping[str, Parent]:
        return self.parents_now()

    @property
    def rows(self) -> list[tuple[str, int | None]]:
        """What it has written, by dataset; one in parts comes several times."""
        return [(each.title, each.rows) for each in self.written]

    @property
    def taken_over(self) -> str:
        """What it took over of the attempts before, as in `1 checkpoint, 2 parts`."""
        return self.saving.progress.taken_over

    def _require_own_process(self, method: str) -> None:
        """Refuse what the attempt would never know of: it would be published without that."""
        if os.getpid() != self._process:
            raise PermanentJobError(
                f"job.{method} was called in a process that the job has forked, and what it leaves"
                " there is lost: let that process return its rows, or the path of a file, and call"
                f" job.{method} where `run` was called"
            )

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

    def files(self, name: str = MAIN, *, output: str | None = None) -> Path:
        self._require_own_process("files")
        target = self._target(name, output)
        self.require_prefix(target.output)
        with self._begun(target, "use the folder that the first call returned") as folder:
            if not isinstance(folder, Path):
                raise PermanentJobError(
                    "this job writes files of its own, which a cluster cannot: send it to another"
                    " engine than emr-serverless"
                )
            folder.mkdir(parents=True)
        self.written.append(Dataset(name, folder, output=target.output))
        return folder

    def require_prefix(self, output: str = "") -> None:
        """Raises PermanentJobError if an output goes to a table, which takes no other files."""
        if self._target(MAIN, output or None).table is not None:
            raise PermanentJobError(
                f"{field_of(output)}: this job writes files of its own, which a table cannot hold:"
                " name a prefix (s3://…)"
            )

    def folder_of(self, name: str, output: str = "") -> Folder:
        """The folder that becomes a dataset of an output.

        Raises:
            PermanentJobError: the name cannot be used.
        """
        if name != MAIN:
            _require_name("dataset", name)
        whole = self.output_folder / f"outputs-{output}" if output else self.output_folder
        return whole / ("main" if name == MAIN else f"named-{name}")

    def _target(self, name: str, output: str | None) -> Target:
        """Where a write goes.

        Raises:
            PermanentJobError: the request has no such output.
        """
        if output is None:
            return Target(name, "", self.table)
        if output not in self.outputs:
            raise PermanentJobError(
                f"the job needs an output {output!r} in the request's outputs; given:"
                f" {', '.join(sorted(self.outputs)) or 'none'}"
            )
        return Target(name, output, self.outputs[output])

    def metric(self, name: str, value: float, /) -> None:
        self._require_own_process("metric")
        _require_text("metric", name)
        if problem := metric_problem(name):
            raise PermanentJobError(problem)
        with self._lock:
            is_full = len(self.metrics) >= MAX_METRICS and name not in self.metrics
            number = _finite(value)
            # What the data decides must not cost the work that is done by now.
            if number is None:
                logger.warning("metric %s is not kept: its value is no finite number", name)
                self.metrics.pop(name, None)
            elif is_full:
                logger.warning("metric %s is not kept: there are %s others", name, MAX_METRICS)
            else:
                self.metrics[name] = number

    def emit(self, *requests: Request, stage: str | None = None) -> None:
        self._require_own_process("emit")
        self.emitter.emit(requests, stage)


def _in_words(title: str) -> str:
    return "the main dataset" if title == MAIN else f"dataset {title!r}"


def _finite(value: object) -> int | float | None:
    """The number, as JSON has it; also of numpy's. None: it is none that CloudWatch takes."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number) or abs(number) > _MAX_METRIC:
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _require_text(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise PermanentJobError(f"{what}: {name!r} is no text: name it by one, as {str(name)!r}")


def _require_name(what: str, name: str) -> None:
    _require_text(what, name)
    if not _NAME.fullmatch(name):
        raise PermanentJobError(f"{name!r} is no {what} name: letters, digits, _ and -, at most 64")


def _require_label(what: str, text: str) -> None:
    """Raises unless the text can be a part's name, or a version."""
    _require_text(what, text)
    if not text or len(text) > _MAX_LABEL or has_controls(text):
        raise PermanentJobError(
            f"{what}: {text[:100]!r} is not 1 to {_MAX_LABEL} characters that can be printed"
        )


def _require_version(version: str | None) -> None:
    if version is not None:
        _require_label("version", version)


def _digest(schema: str, way: str) -> str:
    """What a record has in the place of a part's schema and format: it may name 10,000 parts."""
    return hashlib.sha256(f"{schema} {way}".encode()).hexdigest()[:32]


def _differing(first: str, other: str) -> list[str]:
    """The columns in which two schemas differ, with their types."""
    schemas = [
        {field["name"]: json.dumps(field["type"]) for field in json.loads(each)["fields"]}
        for each in (first, other)
    ]
    before, now = schemas
    return [
        f"{name} is {now.get(name, 'missing')}, and was {before.get(name, 'missing')}"
        for name in before | now
        if before.get(name) != now.get(name)
    ] or ["in what may be null, or in their order"]
