"""Jobs without Spark: the same attempt, and no JVM."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longhaul.core.background import Threads
from longhaul.core.job_kinds import JobKind
from longhaul.core.places import TablePath
from longhaul.core.verdict import ExitCode
from longhaul.job import Job, PermanentJobError
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.runner.job_file import JOBS_VARIABLE
from longhaul.runner.plain import python
from longhaul.runner.plain.python import SparkOnDemand, run_plain
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError, stop_on_sigterm
from tests.builders import BUCKET, settings, there
from tests.forks import exit_code, fork
from tests.runner.conftest import Cloud, MakeAttempt, SharedSpark
from tests.runner.job_attempts import loaded

JOB = """
from pathlib import Path
import pyarrow as pa
from longhaul.job import Params as Base

class Params(Base):
    rows: int

def run(job):
    lines = Path(job.input("lines"), "00000-a b.txt").read_text().split()
    job.progress("half of it", done=1, total=2)
    job.write(pa.table({"n": range(job.params.rows), "line": lines * job.params.rows}))
    return {"lines": len(lines)}
"""
PATH = TablePath("lake", "counts")


@pytest.fixture
def project(tmp_path: Path, use_jobs: Callable[[Path], None]) -> Path:
    """The folder of a project's jobs."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    use_jobs(jobs)
    return jobs


@pytest.fixture
def run(cloud: Cloud, make_plain_attempt: MakeAttempt) -> Callable[..., ExitCode]:
    """Run an attempt of a job without inputs, or of the one that is claimed."""

    def run_(job: Callable[[Job[Any]], object], **changes: Any) -> ExitCode:
        if not changes.pop("is_claimed", False):
            cloud.claim(inputs={}, output=f"s3://{BUCKET}/counts/")
        return make_plain_attempt(job, **changes).run()

    return run_


def published(cloud: Cloud, prefix: str = "counts/") -> dict[str, bytes]:
    return {
        file.path: cloud.s3.get_object(Bucket=BUCKET, Key=prefix + file.path)["Body"].read()
        for file in cloud.manifest(prefix).files
    }


def test_a_job_with_spark_cannot_succeed_where_none_is_installed() -> None:
    def not_installed() -> Any:
        raise ModuleNotFoundError("No module named 'pyspark'")

    spark = SparkOnDemand(not_installed, Stop())
    spark.begin(JobKind.PLAIN)
    with pytest.raises(PermanentJobError, match=r"pip install 'longhaul-jobs\[spark\]'"):
        spark.begin(JobKind.SPARK)


def test_a_job_without_spark_reads_local_paths_and_publishes_its_rows(
    cloud: Cloud, make_plain_attempt: MakeAttempt, project: Path
) -> None:
    (project / "counts.py").write_text(JOB)
    cloud.s3.put_object(Bucket=BUCKET, Key="lines/a b.txt", Body=b"one")
    cloud.claim(
        job="counts",
        inputs={"lines": f"s3://{BUCKET}/lines/"},
        output=f"s3://{BUCKET}/counts/",
        params={"rows": 3},
    )

    assert make_plain_attempt(settings=settings(jobs=("counts",))).run() is ExitCode.OK

    manifest = cloud.manifest("counts/")
    assert manifest.rows == {".": 3}
    assert there(manifest.results)["value"] == {"lines": 1}
    (body,) = published(cloud).values()
    table = pa.parquet.read_table(pa.BufferReader(body))
    assert table.to_pylist() == [{"n": n, "line": "one"} for n in range(3)]


def test_no_module_of_spark_is_imported_for_a_job_without_it(tmp_path: Path) -> None:
    """Seconds differ between machines: what is imported decides them."""
    (tmp_path / "counts.py").write_text("def run(job):\n    pass\n")
    code = (
        "import sys, longhaul.engines.fargate.runner, longhaul.engines.aws_lambda.runner;"
        "from longhaul.runner.wiring import task_attempt;"
        "from longhaul.runner.loading import find_job;"
        "find_job('counts', None).load({}, None);"
        "print([name for name in sys.modules if '.' not in name], len(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {JOBS_VARIABLE: str(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    tops, _, count = done.stdout.rpartition("]")
    assert not {"pyspark", "py4j", "pyarrow", "pyiceberg", "pandas"} & {
        each.strip(" [']") for each in tops.split(",")
    }
    assert int(count) < 800  # with PySpark it would be 500 more


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def run(data):\n    pass\n", r"x.py:1: `def run\(data\)` is no job's: `def run\(spark"),
        ("def run(job, spark):\n    pass\n", r"`def run\(job, spark\)` is no job's"),
        ("import os\n\nasync def run(job):\n    pass\n", r"x.py:3: `async def run\(job\)`"),
    ],
)
def test_a_run_that_nothing_would_call_is_refused(
    cloud: Cloud, make_plain_attempt: MakeAttempt, project: Path, text: str, said: str
) -> None:
    (project / "x.py").write_text(text)
    cloud.claim(job="x", inputs={}, params={})

    assert make_plain_attempt(settings=settings(jobs=("x",))).run() is ExitCode.PERMANENT

    assert re.search(said, cloud.result().error)


def test_a_file_that_is_open_at_the_end_is_refused_by_name(
    run: Callable[..., ExitCode], cloud: Cloud
) -> None:
    with ExitStack() as kept:

        def job(job: Job[Any]) -> None:
            file = kept.enter_context((job.files() / "rows.csv").open("w"))
            file.write("1\n")

        assert run(job) is ExitCode.PERMANENT

    assert "rows.csv is still open for writing" in cloud.result().error


def test_compressed_files_are_the_jobs_own_matter(cloud: Cloud, run: Callable[..., Any]) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key="raw/a.zip", Body=b"zip")
    cloud.claim(inputs={"raw": f"s3://{BUCKET}/raw/"}, output=f"s3://{BUCKET}/counts/")
    seen = []

    def job(job: Job[Any]) -> None:
        (file,) = Path(job.input("raw")).iterdir()
        seen.append(file.read_bytes())
        job.write(pa.table({"n": [1]}))

    assert run(job, is_claimed=True) is ExitCode.OK
    assert seen == [b"zip"]


def test_a_dataset_that_is_still_being_written_is_written_once(
    run: Callable[..., ExitCode], cloud: Cloud
) -> None:
    rows = pa.record_batch({"n": [1]})

    def job(job: Job[Any]) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            yield rows
            # As another thread would.
            for part in (None, "1"):
                with pytest.raises(PermanentJobError, match="was written already"):
                    job.write(pa.table({"n": [2]}), part=part)

        job.write(pa.RecordBatchReader.from_batches(rows.schema, batches()))

    assert run(job) is ExitCode.OK
    assert len(published(cloud)) == 1


def test_a_dataset_that_could_not_be_written_may_be_tried_again(
    run: Callable[..., ExitCode], cloud: Cloud
) -> None:
    rows = pa.record_batch({"n": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows
        raise ConnectionError

    def job(job: Job[Any]) -> None:
        with pytest.raises(ConnectionError):
            job.write(pa.RecordBatchReader.from_batches(rows.schema, batches()))
        job.write(pa.table({"n": [1]}))

    assert run(job) is ExitCode.OK
    assert len(published(cloud)) == 1


def test_an_error_of_a_readers_generator_keeps_its_class(run: Callable[..., ExitCode]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise PermanentJobError("the second half is missing")

    def job(job: Job[Any]) -> None:
        schema = pa.schema([("n", pa.int64())])
        job.write(pa.RecordBatchReader.from_batches(schema, batches()))

    assert run(job) is ExitCode.PERMANENT


@pytest.mark.parametrize("partition_by", [(), ("kind",), ("month(day)", "kind"), ("hour(at)",)])
def test_a_table_gets_the_rows_of_a_frame(
    cloud: Cloud, tables: Tables, run: Callable[..., ExitCode], partition_by: tuple[str, ...]
) -> None:
    rows = [
        {
            "n": n,
            "kind": kind,
            "day": date(2026, 1 + n, 1),
            "at": datetime(2026, 1, 1, n, tzinfo=UTC),
        }
        for n, kind in enumerate(["a", None, "", "b/ c"])
    ]
    cloud.claim(inputs={}, output=str(PATH), mode="append")

    def job(job: Job[Any]) -> None:
        assert job.write(pa.Table.from_pylist(rows), partition_by=partition_by) == 4

    assert run(job, is_claimed=True) is ExitCode.OK
    table = loaded(tables, PATH)
    found = table.scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda row: int(row["n"])) == rows


def test_a_stop_unwinds_the_job_wherever_it_is_and_ends_its_processes() -> None:
    stop, ended = Stop(), list[int]()
    timer = threading.Timer(0.5, stop.request, (StopReason.CANCELLED, "cancelled on request"))

    def work() -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
        try:
            timer.start()  # only now: a busy machine may take long to start the child
            with suppress(Exception):  # as careless code has it
                time.sleep(20)
            time.sleep(20)
        finally:
            ended.append(child.wait())

    with pytest.raises(StopRequestedError, match="cancelled on request"):
        run_plain(work, stop)

    timer.join()
    assert ended == [-signal.SIGKILL]


def test_a_stop_after_the_jobs_end_interrupts_nothing() -> None:
    stop = Stop()
    run_plain(lambda: None, stop)
    thread = threading.Thread(target=stop.request, args=(StopReason.CANCELLED, "late"))
    thread.start()
    thread.join()
    os.kill(os.getpid(), signal.SIGUSR2)  # as if it had been on its way


def test_processes_that_a_job_leaves_are_ended() -> None:
    left: list[subprocess.Popen[bytes]] = []

    def work() -> None:
        left.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"]))

    run_plain(work, Stop())

    assert [each.wait(10) for each in left] == [-signal.SIGKILL]


@pytest.mark.parametrize(
    "events", ["low 0\noom 3\noom_kill {}\n", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"]
)
def test_a_process_that_the_kernel_killed_for_its_memory_is_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, events: str
) -> None:
    file = tmp_path / "memory.events"
    file.write_text(events.format(1))
    monkeypatch.setattr(python, "_EVENTS", (tmp_path / "missing", file))

    def work() -> None:
        file.write_text(events.format(2))
        raise RuntimeError("a process of the pool ended")

    with pytest.raises(MemoryError, match="the task's memory is used up"):
        run_plain(work, Stop())


FORKS = """
import multiprocessing, sys, threading, time
from longhaul.runner.stopping import Stop, stop_on_sigterm

class Background:
    def after(self, _seconds, callback):
        print("ended by its child", flush=True)

if __name__ == "__main__":
    stop_on_sigterm(Stop(), Background())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, [-1, -2]), flush=True)
"""


def test_a_pool_that_ends_its_workers_ends_no_attempt() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[1, 2]\n"


@pytest.mark.parametrize(
    "lose",
    [
        lambda job: job.write(pa.table({"n": [2]}), "second"),
        lambda job: job.write(pa.table({"n": [2]}), part="2"),
        lambda job: job.files("second"),
        lambda job: job.checkpoint("second", pa.table({"n": [2]})),
        lambda job: job.save(),
        lambda job: job.metric("bad_rows", 2),
        lambda job: job.emit({"job_id": "second"}),
        lambda job: job.progress("second"),
        lambda job: job.quiet("second", "1m").__enter__(),
    ],
    ids=["write", "part", "files", "checkpoint", "save", "metric", "emit", "progress", "quiet"],
)
def test_what_a_forked_process_would_lose_is_refused_there(
    run: Callable[..., ExitCode], lose: Callable[[Job[Any]], object]
) -> None:
    def job(job: Job[Any]) -> None:
        job.write(pa.table({"n": [1]}), "first")

        def try_it() -> None:
            with pytest.raises(PermanentJobError, match="in a process that the job has forked"):
                lose(job)

        assert exit_code(fork(try_it)) == 0

    assert run(job) is ExitCode.OK


@pytest.mark.parametrize(("done", "total"), [(1, None), (None, 2), (-1, 2), (1, 0), (3, 2)])
def test_progress_of_no_fraction_is_refused(
    run: Callable[..., ExitCode], done: int | None, total: int | None
) -> None:
    def job(job: Job[Any]) -> None:
        with pytest.raises(ValueError, match="progress: done"):
            job.progress("files", done=done, total=total)
        job.write(pa.table({"n": [1]}))

    assert run(job) is ExitCode.OK


def test_a_cluster_refuses_a_job_without_spark() -> None:
    cluster = SharedSpark.__new__(SharedSpark)  # as on a cluster: Spark is there in any case
    cluster.begin(JobKind.SPARK)
    with pytest.raises(PermanentJobError, match="send it to another engine than emr-serverless"):
        cluster.begin(JobKind.PLAIN)


def test_handler_of_sigterm_is_of_the_runner_alone() -> None:
    """So that the test above means something: without a fork it is called."""
    before = signal.getsignal(signal.SIGTERM)
    heard = threading.Event()

    class Background(Threads):
        def after(self, seconds: float, _callback: Callable[[], None]) -> Any:
            heard.set()
            return super().after(seconds, lambda: None)

    stop_on_sigterm(Stop(), Background())
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard.wait(10)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_wait_for_s3_is_none_of_the_jobs_from_its_end_on(
    cloud: Cloud, make_plain_attempt: MakeAttempt
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    ended, phases = threading.Event(), list[str]()

    def before(**_: object) -> None:
        if ended.is_set():
            phases.append(made.progress.phase)

    cloud.s3.meta.events.register("before-call.s3", before)

    def run(job: Job[Any]) -> None:
        job.write(pa.table({"n": range(3)}))
        ended.set()

    made = make_plain_attempt(run)
    assert made.run() is ExitCode.OK
    assert set(phases) == {"publishing"}
