"""Longhaul's runner without Spark: the real attempt, whose job is `benchmarks.timed_work`."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import timed_work
from longhaul.core.background import Threads
from longhaul.core.job_kinds import JobKind
from longhaul.core.settings import runtime_settings
from longhaul.job import Params
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.io.written import Dataset
from longhaul.runner.loading import FoundJob, LoadedJob
from longhaul.runner.reporting import Effort
from longhaul.runner.running_job import RunningJob
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop, stop_on_sigterm
from longhaul.runner.task import this_task
from longhaul.runner.wiring import attempt_from_environment, put_together, s3_client, tables_from


class WithoutSpark:
    """`longhaul.runner.attempt.Spark`. Time counts as work, but for that of a job that hangs."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._hangs = False

    def find_job(self, _job: str, _fetch: Callable[[str], Path]) -> FoundJob:
        return FoundJob(self._load)

    def _load(self, params: Mapping[str, Any], _await_session: Callable[[], None]) -> LoadedJob:
        def run(_session: object, job: RunningJob[Any]) -> None:
            timed_work.do(params["work"], self._sleep)
            folder = Path(str(job.folder_of(".")))
            folder.mkdir(parents=True)
            (folder / "part-00000.json").write_text("{}\n")
            job.written.append(Dataset(".", folder, 1))

        return LoadedJob(run, Params())

    version = "4"

    def begin(self, kind: JobKind) -> None:
        """There is nothing to boot."""

    def await_session(self, _input_bytes: int = 0) -> None:
        """There is none."""

    def run(self, loaded: LoadedJob, job: RunningJob[Any]) -> None:
        loaded.run(None, job)  # type: ignore[arg-type]  # it needs no session

    def sample(self) -> SparkSample:
        return SparkSample()

    def effort(self) -> Effort:
        return Effort(seconds=1.0, cpu_s=0.0 if self._hangs else 1.0, io_bytes=0)

    def _sleep(self, seconds: float) -> None:
        self._hangs = seconds >= timed_work.FOREVER_S
        self._stop.wait(seconds)
        self._stop.check()


def main() -> int:
    stop, background = Stop(), Threads()
    stop_on_sigterm(stop, background)
    attempt_id, settings = attempt_from_environment(), runtime_settings()
    s3 = s3_client(settings)
    spark = WithoutSpark(stop)
    with tempfile.TemporaryDirectory() as folder:
        attempt = put_together(
            attempt_id,
            settings,
            s3,
            task=this_task(stop),
            scratch=Path(folder),
            area=DiskArea(s3, Path(folder), settings.tasks.disk_gib),
            spark=spark,
            stop=stop,
            background=background,
            tables=tables_from(settings, s3),
            find_job=spark.find_job,
            effort=spark.effort,
        )
        attempt.end_when_stopped()
        return int(attempt.run())


if __name__ == "__main__":
    sys.exit(main())
