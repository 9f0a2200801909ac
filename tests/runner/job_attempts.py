"""One attempt after another of one job, for the tests of what jobs store."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.core import transitions
from longhaul.core.claim import next_attempt
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import State
from longhaul.core.places import TablePath
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import after_verdict
from longhaul.core.verdict import ExitCode, OutcomeClass, Verdict
from longhaul.job import Job, Params
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.runner.attempt import AttemptRunner, Spark
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.loading import FoundJob, LoadedJob, Run
from longhaul.runner.spark.sample import SparkSample
from tests.builders import stage, there

if TYPE_CHECKING:
    from tests.runner.conftest import Cloud, MakeAttempt

JobCode = Callable[[SparkSession, Job[Any]], None]
EACH_KIND = pytest.mark.parametrize(
    "attempts", [JobKind.SPARK, JobKind.PLAIN], ids=["spark", "plain"], indirect=True
)
"""For a promise that holds for jobs with Spark and for those without."""
SHARED_BY_KINDS = pytest.mark.parametrize(
    "attempts",
    [pytest.param(JobKind.SPARK, marks=pytest.mark.slow), JobKind.PLAIN],
    ids=["spark", "plain"],
    indirect=True,
)
"""The same where one code keeps it for both: the quick tests have it without Spark."""


class PlainFrames:
    """What the same code, as a job without Spark, has in the place of a session."""

    def range(self, n: int) -> pa.Table:
        return pa.table({"id": pa.array(range(n), pa.int64())})

    def computed(self, name: str, n: int, note: Callable[[], None]) -> pa.RecordBatchReader:
        schema = pa.schema([("n", pa.int64()), ("month", pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(n):
                note()
                yield pa.record_batch({"n": [number], "month": [name]})

        return pa.RecordBatchReader.from_batches(schema, batches())


@dataclass(frozen=True)
class Either:
    """Jobs of one kind for a test, over local files, and what makes their frames."""

    make: Callable[..., Any]
    frames: Any

    def texts(self) -> Any:
        """A frame with other columns than those of a range."""
        if isinstance(self.frames, PlainFrames):
            return pa.table({"n": ["x"]})
        return self.frames.range(1).selectExpr("'x' AS n")

    def rows(self, frame: Any) -> int:
        return frame.num_rows if isinstance(frame, pa.Table) else int(frame.count())


def no_jvm() -> Spark:
    raise AssertionError("the job needs no JVM")


def found_job(
    run: Run, params: Any = None, code: str = "", kind: JobKind = JobKind.SPARK
) -> FoundJob:
    loaded = LoadedJob(run, params or Params())
    return FoundJob(lambda *_: loaded, code, kind)


def plain_job(run: Callable[[Job[Any]], object], code: str = "1") -> FoundJob:
    return found_job(lambda _, job: run(job), None, code, JobKind.PLAIN)  # type: ignore[arg-type]


class DiesError(Exception):
    """In the place of a kill: nothing of the attempt goes on."""


class Attempts:
    """One attempt after another of one job; each has a disk of its own, which ends with it."""

    def __init__(
        self, cloud: "Cloud", make: "MakeAttempt", folder: Path, kind: JobKind = JobKind.SPARK
    ) -> None:
        self._cloud = cloud
        self._make = make
        self._folder = folder
        self._kind = kind
        self.number = 0

    def run(self, job: JobCode, code: str = "1", **parts: Any) -> ExitCode:
        return self.run_found(self._found(job, code), **parts)

    def ends(self, job: JobCode, number: int = 2, **parts: Any) -> list[ExitCode]:
        """How that many attempts end, one after another."""
        return [self.run(job, **parts) for _ in range(number)]

    def make(self, job: JobCode, **parts: Any) -> AttemptRunner:
        return self._attempt(self._found(job), parts)

    def run_found(self, found: FoundJob, **parts: Any) -> ExitCode:
        exit_code = self._attempt(found, parts).run()
        if exit_code is not ExitCode.OK:
            self.settle()
        return exit_code

    def _found(self, job: JobCode, code: str = "1") -> FoundJob:
        if self._kind is JobKind.SPARK:
            return found_job(job, None, code)
        return plain_job(lambda running: job(PlainFrames(), running), code)  # type: ignore[arg-type]

    def _attempt(self, found: FoundJob, parts: dict[str, Any]) -> AttemptRunner:
        self.number += 1
        scratch = self._folder / str(self.number)
        area = DiskArea(self._cloud.s3, scratch, {})
        return self._make(
            kind=found.kind, find_job=lambda *_: found, scratch=scratch, area=area, **parts
        )

    def settle(self, verdict: Verdict | None = None) -> None:
        """Release the job, and claim its next attempt. The verdict is by default its result's."""
        now, timing = datetime.now(UTC), LeaseSettings()
        before = self._cloud.lease()
        result = before.attempt.result
        if verdict is None and result is not None:
            verdict = Verdict(OutcomeClass(result.kind), result.error)
        verdict = verdict or Verdict(OutcomeClass.INTERRUPTED, "it ended")
        after = after_verdict(before, verdict, stage(), timing, now, random.Random(1)).lease
        after = self._cloud.leases.apply(transitions.settle(before, after))
        assert after.state is State.RELEASED
        again = next_attempt(after, None, timing, now)
        self._cloud.leases.apply(transitions.claim(after, again, stage()))


def computed(spark: SparkSession, name: str, n: int, counter: Path) -> DataFrame:
    """A frame of `n` rows whose computation leaves a line for each in the file."""
    counter.parent.mkdir(parents=True, exist_ok=True)
    text, file = f"{name}\n", str(counter)
    if isinstance(spark, PlainFrames):

        def note() -> None:
            with counter.open("a") as opened:
                opened.write(text)

        return spark.computed(name, n, note)

    def noting(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Spark reads hints
        with Path(file).open("a") as opened:
            opened.write(text)
        return value

    frame = spark.range(n, numPartitions=1)
    return frame.select(F.udf(noting, "long")("id").alias("n"), F.lit(name).alias("month"))


def times(counter: Path, name: str) -> int:
    return counter.read_text().splitlines().count(name) if counter.exists() else 0


class Instead:
    """The real thing, with some of its methods replaced: `Instead(s3, get_object=…)`."""

    def __init__(self, real: Any, **methods: Callable[..., Any]) -> None:
        self.real = real
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


OUTPUT = "clean/2013-01/"
CSV = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,"
    b"air_time,distance,hour,minute,time_hour\n"
    b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    b"2013,1,1,517,515,late,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
)


def loaded(tables: Tables, path: TablePath) -> Table:
    return there(tables.load(path))


def write_one_row(spark: SparkSession, job: Job[Any]) -> None:
    job.write(spark.range(1))


class NoSpark:
    version = "4"

    def begin(self, kind: JobKind) -> None:
        """There is nothing to boot."""

    def await_session(self, _input_bytes: int = 0) -> None:
        raise AssertionError("Spark is not needed")

    def sample(self) -> SparkSample:
        return SparkSample()
