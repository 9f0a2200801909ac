"""What counts as work, and what the lease row is told of it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from jobs.reporting import Phase, Progress, Reporter
from jobs.spark.progress import Effort, ProcessTree, SparkSample, SparkWatch, StageCount
from jobs.stopping import Stop
from jobs.task import Resources, resources
from tests.builders import running

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IDLE, BUSY = Effort(1.0, 0.02, 500), Effort(1.0, 1.4, 0)


@dataclass
class Watched:
    """A reporter whose surroundings a test sets: the effort of the process tree, Spark's sample and the time."""

    reporter: Reporter
    written: list[tuple[dict[str, Any], datetime]]
    effort: Effort = IDLE
    sample: SparkSample = field(default_factory=SparkSample)
    now_: datetime = NOW

    def report(self) -> tuple[dict[str, Any], datetime]:
        self.now_ += timedelta(seconds=5)
        self.reporter.report()
        return self.written[-1]


@pytest.fixture
def watched() -> Watched:
    written: list[tuple[dict[str, Any], datetime]] = []

    class Leases:
        def report_progress(self, _attempt: Any, progress: dict[str, Any], progress_at: datetime) -> Any:
            written.append((progress, progress_at))
            return running()

    leases: Any = Leases()
    reporter = Reporter(leases, running().id, Any, Stop(), Progress(), 1.0, 60.0)  # type: ignore[arg-type]  # set below
    watched_ = Watched(reporter, written)

    class Surroundings:
        def now(self) -> datetime:
            return watched_.now_

        def effort(self) -> Effort:
            return watched_.effort

    surroundings: Any = Surroundings()
    reporter.clock = reporter._tree = surroundings
    reporter.spark = lambda: watched_.sample
    return watched_


def test_a_hung_job_is_reported_but_does_not_advance(watched: Watched) -> None:
    watched.report()
    _, first = watched.report()
    _, second = watched.report()
    assert first == second


def test_a_long_task_that_burns_cpu_advances_although_no_task_ends(watched: Watched) -> None:
    watched.sample = SparkSample(0, 1, (StageCount(0, 0, 1),))
    watched.effort = BUSY
    advances = [watched.report()[1] for _ in range(3)]
    assert advances == sorted(set(advances))


def test_io_is_work(watched: Watched) -> None:
    watched.report()
    watched.effort = Effort(1.0, 0.0, 5_000_000)
    assert watched.report()[1] == watched.now_


def test_an_ended_task_and_a_note_advance(watched: Watched) -> None:
    watched.report()
    watched.sample = SparkSample(1, 2, (StageCount(0, 1, 2),))
    assert watched.report()[1] == watched.now_
    watched.reporter.progress.say("half way")
    document, at = watched.report()
    assert (document["note"], at) == ("half way", watched.now_)


def test_the_fraction_never_goes_back_when_spark_learns_of_more_stages() -> None:
    progress = Progress()
    progress.enter(Phase.RUNNING)
    fractions = [progress.fraction(SparkSample(done, total)) for done, total in ((0, 4), (4, 4), (4, 40), (40, 40))]
    assert fractions == sorted(fractions) == [0.1, 0.9, 0.9, 0.9]
    progress.enter(Phase.PUBLISHING, 10)
    progress.advance(10)
    assert progress.fraction(SparkSample()) == 1.0


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("child", ["print('up', flush=True)\nwhile True: pass"], indirect=True)
@pytest.mark.usefixtures("child")
def test_a_busy_child_process_is_work() -> None:
    tree = ProcessTree()
    end = time.monotonic() + 20
    while not tree.effort().is_work:
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize("child", ["import time\nprint('up', flush=True)\ntime.sleep(600)"], indirect=True)
@pytest.mark.usefixtures("child")
def test_a_sleeping_child_process_is_no_work() -> None:
    tree = ProcessTree()
    time.sleep(1)
    effort = tree.effort()
    assert not effort.is_work, effort


def test_sparks_tasks_are_counted_while_the_main_thread_waits_for_it(spark: SparkSession) -> None:
    watch = SparkWatch(spark.sparkContext, period_s=0.02)
    watch.start()
    try:
        spark.range(0, 200, 1, 8).select(F.udf(lambda n: time.sleep(0.02) or n, "long")("id")).collect()
    finally:
        watch.stop()
    assert watch.latest.total >= 8


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [(1, 4096, Resources(1, 2868)), (0.25, 1024, Resources(1, 717))],
)
def test_the_tasks_limits_bound_spark(cpu: float, memory: int, expected: Resources) -> None:
    assert resources(cpu, memory).cores == expected.cores
    assert resources(cpu, memory).heap_mib in range(512, memory)
