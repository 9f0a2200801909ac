"""What counts as work, and what the reporter writes about it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from botocore.exceptions import EndpointConnectionError
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.core.background import Threads
from longhaul.core.lease import Lease
from longhaul.core.settings import LeaseSettings
from longhaul.core.transitions import Report
from longhaul.runner.reporting import Effort, Phase, ProcessTree, Progress, Reporter
from longhaul.runner.resources import Resources, resources
from longhaul.runner.spark import progress as progress_module
from longhaul.runner.spark.progress import SparkWatch
from longhaul.runner.spark.sample import SparkSample, StageCount
from longhaul.runner.stopping import Stop
from tests.builders import running, there
from tests.local.support import eventually
from tests.patience import DEADLINE_S

NOW = datetime(2026, 1, 1, tzinfo=UTC)


IDLE, BUSY = Effort(1.0, 0.02, 500), Effort(1.0, 1.4, 0)
RUNNING = SparkSample(0, 1, (StageCount(0, 0, 1),))


class Watched:
    """A reporter for which the test sets effort, sample and time."""

    def __init__(self) -> None:
        self.effort, self.sample, self.now_ = IDLE, SparkSample(), NOW
        self.written: list[tuple[dict[str, Any], datetime]] = []
        around: Any = SimpleNamespace(now=lambda: self.now_, report=self._write)
        self.reporter = Reporter(
            leases=around,
            attempt=running().id,
            clock=around,
            background=Threads(),
            stop=Stop(),
            progress=Progress(),
            timing=LeaseSettings(progress_period_s=1.0),
            stall_timeout_s=900,
            sample=lambda: self.sample,
            effort=lambda: self.effort,
        )

    def _write(self, report: Report) -> Lease:
        self.written.append((report.sets["progress"], report.sets["progress_at"]))
        return running()

    def report(self) -> tuple[dict[str, Any], datetime]:
        self.now_ += timedelta(seconds=5)
        self.reporter.report()
        return self.written[-1]

    def look(self, seconds: float = 5) -> bool:
        """Whether a look that comes so much later is reported."""
        self.now_ += timedelta(seconds=seconds)
        before = len(self.written)
        self.reporter._report_if_due()
        return len(self.written) > before


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize(
    ("effort", "sample", "advances"),
    [
        pytest.param(IDLE, SparkSample(), False, id="a hung job"),
        pytest.param(BUSY, RUNNING, True, id="a long task that burns CPU, although none ends"),
        pytest.param(Effort(1.0, 0.0, 5_000_000), SparkSample(), True, id="I/O"),
        pytest.param(
            IDLE, replace(RUNNING, runs_elsewhere=True), True, id="an executor, which is not seen"
        ),
    ],
)
def test_work_is_an_advance_and_what_hangs_is_none(
    watched: Watched, effort: Effort, sample: SparkSample, *, advances: bool
) -> None:
    watched.effort, watched.sample = effort, sample
    watched.report()
    _, first = watched.report()
    _, second = watched.report()
    assert (first < second) == advances


def test_a_job_whose_executor_is_gone_hangs(watched: Watched) -> None:
    watched.sample = replace(RUNNING, runs_elsewhere=True)
    watched.report()
    watched.sample = RUNNING
    assert watched.report()[1] == watched.report()[1]


def test_a_job_without_executors_is_reported_as_waiting(watched: Watched) -> None:
    watched.reporter.progress.enter(Phase.RUNNING)
    watched.sample = replace(RUNNING, waits_for_executors=True)
    assert watched.report()[0]["phase"] == "waiting"
    watched.sample = replace(RUNNING, runs_elsewhere=True)
    assert watched.report()[0]["phase"] == "running"


def test_an_ended_task_and_a_note_advance(watched: Watched) -> None:
    watched.report()
    watched.sample = SparkSample(1, 2, (StageCount(0, 1, 2),))
    assert watched.report()[1] == watched.now_
    watched.reporter.progress.say("half way")
    document, at = watched.report()
    assert (document["note"], at) == ("half way", watched.now_)


def test_a_job_that_has_said_how_far_it_is_stalls_like_any_other(watched: Watched) -> None:
    watched.reporter.progress.enter(Phase.RUNNING)
    watched.reporter.progress.say("files", done=1, total=4)
    watched.report()
    document, first = watched.report()
    _, second = watched.report()
    assert document["fraction"] == 0.3
    assert first == second


def test_a_quiet_period_counts_as_progress_until_it_ends_or_has_lasted_too_long(
    watched: Watched,
) -> None:
    watched.report()
    with watched.reporter.progress.quiet(watched.now_ + timedelta(seconds=12)):
        quiet = [watched.report()[1] for _ in range(5)]
    assert quiet == [NOW + timedelta(seconds=seconds) for seconds in (10, 15, 15, 15, 15)]
    with watched.reporter.progress.quiet(watched.now_ + timedelta(hours=1)):
        ended = watched.report()[1]
    assert [watched.report()[1] for _ in range(2)] == [ended] * 2


def test_of_waits_that_overlap_each_has_its_own_end() -> None:
    progress, save, job = Progress(), ExitStack(), ExitStack()
    save.enter_context(progress.quiet(NOW + timedelta(minutes=10)))
    job.enter_context(progress.quiet(NOW + timedelta(hours=2)))
    save.close()
    assert progress.is_quiet(NOW + timedelta(hours=1))
    job.close()
    assert not progress.is_quiet(NOW)


@pytest.fixture
def young(watched: Watched) -> Watched:
    """A reporter with its first report written."""
    watched.reporter.timing = LeaseSettings()
    watched.reporter._started_at = watched.reporter._written_at = NOW
    assert watched.look()
    return watched


@pytest.mark.parametrize(
    ("age_s", "has_news", "shown"),
    [
        (5, True, [True] * 6),
        (95, True, [False, False, True] * 2),
        (5, False, [False, False, True] * 2),
    ],
    ids=["news of a young one", "news of an older one", "no news"],
)
def test_reports_wait_in_proportion_to_the_age_and_load_alone_is_no_news(
    young: Watched, age_s: float, shown: list[bool], *, has_news: bool
) -> None:
    young.effort = BUSY
    young.reporter.progress.say("first")
    assert young.look(age_s)
    found = []
    for n in range(6):
        young.effort = Effort(1.0, 0.5 + n, 10**6)
        if has_news:
            young.reporter.progress.say(f"file {n}")
        found.append(young.look())
    assert found == shown


def test_a_new_phase_is_reported_at_once_however_old_the_attempt_is(young: Watched) -> None:
    assert young.look(3_600)
    young.reporter.progress.enter(Phase.PUBLISHING, 10)
    assert young.look()


def test_an_advance_after_a_rest_is_reported_before_the_rest_counts_as_a_stall(
    young: Watched,
) -> None:
    for _ in range(11):
        young.look(15)
    rested = young.written[-1][1]
    assert not young.look()
    young.effort = BUSY
    assert young.look()
    assert young.written[-1][1] > rested


def test_a_report_that_could_not_be_written_is_made_again_at_the_next_look(young: Watched) -> None:
    write = young.reporter.leases.report
    refused: Any = Mock(side_effect=EndpointConnectionError(endpoint_url="dynamodb"))
    young.reporter.leases.report = refused  # type: ignore[method-assign]
    assert not young.look(15)
    assert refused.called
    young.reporter.leases.report = write  # type: ignore[method-assign]
    assert young.look()
    assert not young.look()


@pytest.mark.parametrize("effort", [IDLE, BUSY])
def test_reports_go_on_after_the_clock_was_set_back(young: Watched, effort: Effort) -> None:
    """Otherwise the attempt would be silent for as long, and be ended for that."""
    young.effort = effort
    young.now_ -= timedelta(hours=1)
    assert any(young.look() for _ in range(4))
    assert young.written[-1][1] <= young.now_


def test_the_row_stays_small_whatever_spark_does(watched: Watched) -> None:
    watched.sample = SparkSample(
        10**9, 10**9, tuple(StageCount(10**6 + n, 10**6, 10**6) for n in range(100)), 10**15, 10**15
    )
    watched.reporter.progress.say("x" * 1000)
    document = watched.report()[0]
    assert len(json.dumps(document)) < 512
    assert document["note"].endswith("x…")  # a reader sees that it is cut off


def test_the_fraction_never_goes_back_when_spark_learns_of_more_stages() -> None:
    progress = Progress()
    progress.enter(Phase.RUNNING)
    fractions = [
        progress.fraction(SparkSample(done, total))
        for done, total in ((0, 4), (4, 4), (4, 40), (40, 40))
    ]
    assert fractions == sorted(fractions) == [0.1, 0.9, 0.9, 0.9]
    progress.enter(Phase.PUBLISHING, 10)
    progress.advance(10)
    assert progress.fraction(SparkSample()) == 1.0


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE)
    stdout = there(process.stdout)
    stdout.readline()
    yield
    process.kill()
    process.wait()
    stdout.close()


@pytest.mark.parametrize("child", ["print('up', flush=True)\nwhile True: pass"], indirect=True)
@pytest.mark.usefixtures("child")
def test_a_busy_child_process_is_work() -> None:
    tree = ProcessTree()
    eventually(lambda: tree.effort().is_work, "work is seen", every_s=0.2)


@pytest.mark.parametrize(
    "child", ["import time\nprint('up', flush=True)\ntime.sleep(600)"], indirect=True
)
@pytest.mark.usefixtures("child")
def test_a_sleeping_child_process_is_no_work() -> None:
    tree = ProcessTree()
    time.sleep(1)
    effort = tree.effort()
    assert not effort.is_work, effort


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_spark_that_the_job_has_stopped_is_gone() -> None:
    context = SparkContext.__new__(SparkContext)
    context._jsc = None  # as `stop` leaves it
    watch = SparkWatch(context, period_s=0.01)
    assert watch.is_spark_gone()
    watch.start()
    time.sleep(0.1)
    watch.stop()


@pytest.fixture
def on_executors() -> SparkWatch:
    """A watch that has just seen tasks on executors, of a Spark that is stopped."""
    context = SparkContext.__new__(SparkContext)
    context._jsc = None  # as `stop` leaves it
    watch = SparkWatch(context, period_s=0.01, has_executors=True)
    watch.latest = replace(RUNNING, runs_elsewhere=True)
    return watch


def test_no_task_runs_on_a_spark_that_the_job_has_stopped(on_executors: SparkWatch) -> None:
    """What the job does then stalls like all else: no executor works for it any more."""
    on_executors.start()
    eventually(lambda: not on_executors.current().runs_elsewhere, "its end is seen")
    assert on_executors.current() == SparkSample(0, 1)


def test_spark_is_watched_on_after_a_sample_that_failed(on_executors: SparkWatch) -> None:
    """A stage of which Spark keeps nothing any more is no end of Spark."""
    lost = Py4JError("no stage with id 7")
    samples = Mock(side_effect=chain([lost, SparkSample(1, 1)], repeat(SparkSample(2, 2))))
    on_executors._sample = samples  # type: ignore[method-assign]
    on_executors.is_spark_gone = lambda: False  # type: ignore[method-assign]
    on_executors.start()
    eventually(lambda: on_executors.current().done == 2, "the next sample")
    on_executors.stop()


def test_rows_of_a_stage_that_spark_no_longer_keeps_stay_counted() -> None:
    """It keeps a thousand. A job with a long lineage has more of them at once."""
    context: Any = Mock()
    forgotten = Py4JJavaError("No stage with id 7", Mock(_target_id="o7"))
    context._jsc.sc().statusStore().lastStageAttempt.side_effect = forgotten
    context.statusTracker().getActiveStageIds.return_value = []
    watch = SparkWatch(context, period_s=0.01)
    watch.latest = SparkSample(0, 1, (StageCount(7, 0, 1),), rows_read=500)
    watch._rows[7] = 500, 0
    watch._seen[7] = StageCount(7, 0, 1)
    assert watch._sample() == SparkSample(1, 1, rows_read=500)


@pytest.mark.parametrize("is_stuck", [False, True])
def test_no_task_runs_once_the_job_has_ended(
    on_executors: SparkWatch, monkeypatch: pytest.MonkeyPatch, *, is_stuck: bool
) -> None:
    """Otherwise a publication that hangs would be work for ever."""
    monkeypatch.setattr(progress_module, "_LAST_SAMPLE_S", 0.1)
    running_, answer = on_executors.latest, threading.Event()

    def sample() -> SparkSample:
        if is_stuck:
            answer.wait()
        return running_

    on_executors._sample = sample  # type: ignore[method-assign]
    on_executors.start()
    on_executors.stop()
    assert not on_executors.current().runs_elsewhere
    answer.set()
    there(on_executors._thread).join(DEADLINE_S)
    assert not on_executors.current().runs_elsewhere


def test_no_task_is_known_to_run_when_the_jvm_no_longer_answers(on_executors: SparkWatch) -> None:
    answer = threading.Event()
    on_executors._sample = lambda: answer.wait() and SparkSample()  # type: ignore[method-assign, assignment, return-value]
    on_executors.start()
    assert on_executors.current().runs_elsewhere
    on_executors._sampled_at -= 60
    assert not on_executors.current().runs_elsewhere
    answer.set()
    on_executors.stop()


def test_work_without_a_registered_executor_is_seen(spark: SparkSession) -> None:
    """A local Spark has a driver's block manager, and no executor's."""
    watch = SparkWatch(spark.sparkContext, period_s=0.02, has_executors=True)
    waiting = threading.Event()
    take = watch._sample

    def sample() -> SparkSample:
        found = take()
        assert found.waits_for_executors == bool(found.active)
        if found.waits_for_executors:
            waiting.set()
        return found

    watch._sample = sample  # type: ignore[method-assign]
    watch.start()
    try:
        spark.range(0, 100, 1, 8).select(
            F.udf(lambda n: time.sleep(0.02) or n, "long")("id")
        ).collect()
    finally:
        watch.stop()
    assert waiting.is_set()


def test_rows_read_and_written_are_counted_once_their_tasks_have_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    watch = SparkWatch(spark.sparkContext, period_s=0.02)
    watch.start()
    try:
        spark.range(0, 500, 1, 4).write.parquet(str(tmp_path / "rows"))
        spark.read.parquet(str(tmp_path / "rows")).selectExpr("sum(id)").collect()
        eventually(
            lambda: not watch.latest.active and watch.latest.rows_written,
            "the tasks have ended",
            story=lambda: str(watch.latest),
        )
    finally:
        watch.stop()
    assert watch.latest.rows_written == 500


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [(1, 4096, Resources(1, 2868)), (0.25, 1024, Resources(1, 717))],
)
def test_the_tasks_limits_bound_spark(cpu: float, memory: int, expected: Resources) -> None:
    assert resources(cpu, memory).cores == expected.cores
    assert resources(cpu, memory).heap_mib in range(512, memory)


@pytest.mark.parametrize(("known", "cores"), [(6, 6), (None, 1)])
def test_without_limits_spark_has_the_cores_and_a_quarter_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, known: int | None, cores: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: known)
    quarter = psutil.virtual_memory().total // (4 * 1024 * 1024)
    assert resources(None, None) == Resources(cores, quarter)
