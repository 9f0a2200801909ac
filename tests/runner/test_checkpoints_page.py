"""Every job of docs/checkpoints.md goes on where its attempts were cut off."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from longhaul.core.request import read_request
from longhaul.core.settings import LeaseSettings
from longhaul.core.verdict import ExitCode, OutcomeClass, Verdict
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.running_job import RunningJob
from tests.builders import BUCKET, settings
from tests.layers import ROOT
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import Attempts

PAGE = (ROOT / "docs" / "checkpoints.md").read_text()
# By the comment in their first line: where they belong.
FILES = {
    code.partition("\n")[0].removeprefix("# "): code
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}
JOBS = ("sessions", "train", "fetch")


@pytest.fixture
def jobs(tmp_path: Path, use_jobs: Callable[[Path], None]) -> None:
    """The jobs of the page, where they are imported."""
    for name in JOBS:
        (tmp_path / f"{name}.py").write_text(FILES[f"jobs/{name}.py"])
    use_jobs(tmp_path)


@pytest.fixture
def run(
    cloud: Cloud, make_attempt: MakeAttempt, tmp_path: Path, jobs: None
) -> Callable[[str], ExitCode]:
    """Runs the next attempt of a job of the page; returns how it ended."""
    del jobs
    attempts = Attempts(cloud, make_attempt, tmp_path)

    def run_(name: str) -> ExitCode:
        scratch = tmp_path / f"attempt-{cloud.lease().attempt.number}"
        ended = make_attempt(
            settings=settings(jobs=(name,), lease=LeaseSettings(progress_period_s=0.05)),
            scratch=scratch,
            area=DiskArea(cloud.s3, scratch, {}),
        ).run()
        if ended is not ExitCode.OK:
            attempts.settle(Verdict(OutcomeClass.INTERRUPTED, "cut off"))
        return ended

    return run_


def cut_off_at(monkeypatch: pytest.MonkeyPatch, method: str, times: set[int]) -> list[int]:
    """Have calls of a method, by their number over all attempts, end the attempt."""
    calls: list[int] = []
    stock = getattr(RunningJob, method)

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(self.attempt)
        if len(calls) in times:
            raise OSError("cut off")
        return stock(self, *args, **kwargs)

    monkeypatch.setattr(RunningJob, method, counted)
    return calls


def rows(cloud: Cloud, prefix: str = "out/") -> int:
    return cloud.manifest(prefix).rows["."]


@pytest.mark.usefixtures("jobs")
def test_the_test_of_the_second_attempt(
    spark: SparkSession, make_job: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("test_of_the_page")
    exec(FILES["tests/test_train.py"], vars(module))  # noqa: S102 - our own page
    (test,) = (value for name, value in vars(module).items() if name.startswith("test_"))
    test(spark, make_job, written, monkeypatch)


def test_the_request_of_the_script_is_one() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    read_request(text)


def test_the_long_transformation(
    cloud: Cloud,
    run: Callable[[str], ExitCode],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = spark.sql(
        "SELECT id % 2 AS user, timestamp'2013-01-15 12:00:00' + make_interval(0, id) AS at"
        " FROM range(4)"
    )
    events.coalesce(1).write.parquet(str(tmp_path / "events"))
    (file,) = (tmp_path / "events").glob("*.parquet")
    cloud.s3.put_object(Bucket=BUCKET, Key="events/a.parquet", Body=file.read_bytes())
    cloud.claim(
        job="sessions",
        inputs={"events": f"s3://{BUCKET}/events/"},
        output=f"s3://{BUCKET}/out/",
    )
    asked = cut_off_at(monkeypatch, "write", {3})
    assert run("sessions") is ExitCode.FAILED
    assert cloud.lease().resumptions == 1
    assert run("sessions") is ExitCode.OK
    assert asked == [1, 1, 1, 2, 2, 2, 2]
    assert cloud.lease().attempt.progress["taken_over"] == "1 checkpoint, 2 parts"
    assert rows(cloud) == 4


@pytest.mark.parametrize(("job", "saves"), [("train", 10), ("fetch", 5)])
def test_the_loop_goes_on_after_its_last_save(
    cloud: Cloud,
    run: Callable[[str], ExitCode],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
    saves: int,
) -> None:
    cloud.claim(job=job, inputs={}, output=f"s3://{BUCKET}/out/")
    calls = cut_off_at(monkeypatch, "save", {4})
    assert run(job) is ExitCode.FAILED
    assert run(job) is ExitCode.OK
    assert calls == [1] * 4 + [2] * (saves - 3)
    assert rows(cloud) == (1 if job == "train" else 5)
    assert cloud.lease().attempt.progress["taken_over"] == "the state, 1 folder"
    (tmp_path / "read").mkdir()
    for n, name in enumerate(key for key in cloud.objects("out/") if key.endswith(".parquet")):
        body = cloud.s3.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        (tmp_path / "read" / f"{n}.parquet").write_bytes(body)
    total = spark.read.parquet(str(tmp_path / "read")).groupBy().sum().collect()[0][0]
    assert total == (2**-10 if job == "train" else 0 + 1 + 2 + 3 + 4)
