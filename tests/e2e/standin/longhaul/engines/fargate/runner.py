"""A runner without Spark: the real attempt, whose job sleeps, and dies where its request says.

`params.plan` has one word for each attempt whose task has begun: one that was claimed and never ran
takes none, which happens on a busy machine. The last word holds for all that follow. Each works for
`params.work_s` seconds, or until there is a file at `params.until`. Of the objects of
`params.reads`, what S3 says to the task is in the output, and of `params.variables` what is in its
environment. The job `probe` is the
catalogue's own, with a session that only counts.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.background import Threads
from longhaul.core.clients import SystemClock
from longhaul.core.errors import PermanentJobError
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath
from longhaul.core.settings import runtime_settings
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.job import Params
from longhaul.local.credentials import aws_client
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.io.written import Dataset
from longhaul.runner.loading import FoundJob, LoadedJob, find_job
from longhaul.runner.reporting import Effort
from longhaul.runner.running_job import RunningJob
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop, stop_on_sigterm
from longhaul.runner.task import this_task
from longhaul.runner.wiring import attempt_from_environment, put_together, s3_client, tables_from

_LOOKS_EVERY_S = 0.05
_SCHEMA = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}


def main() -> int:
    stop, background = Stop(), Threads()
    stop_on_sigterm(stop, background)
    attempt_id, settings = attempt_from_environment(), runtime_settings()
    s3 = s3_client(settings)
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-standin-"))
    plan = Plan(attempt_id, stop, settings.lease.progress_period_s)
    attempt = put_together(
        attempt_id,
        settings,
        s3,
        task=this_task(stop),
        scratch=scratch,
        area=DiskArea(s3, scratch, settings.tasks.disk_gib),
        spark=plan,
        stop=stop,
        background=background,
        tables=tables_from(settings, s3),
        find_job=plan.find_job,
        effort=plan.effort,
    )
    plan.s3 = s3
    plan.begun = partial(begun_before, overseer(settings.leases_table), attempt_id)
    attempt.leases = PlannedLeases(attempt.leases, plan)
    attempt.end_when_stopped()
    return int(attempt.run())


def overseer(table: str) -> DynamoLeases:
    """The rows, for what a task's role may not read: the plan is the test's, not the task's."""
    endpoint, region = os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_REGION"]
    client = aws_client("dynamodb", endpoint=endpoint, region=region)
    return DynamoLeases(Records(client, table, SystemClock(), random.Random(1)))


def begun_before(leases: Any, attempt: AttemptId) -> int:
    """How many earlier attempts of the run had a task that began."""
    row = leases.load(attempt.key)
    return sum(
        record.attempt.started_at is not None
        for record in leases.history([row])[attempt.key]
        if record.run == attempt.run and record.attempt.number < attempt.attempt
    )


class Plan:
    """`longhaul.runner.attempt.Spark`, and what the request has in store for this attempt."""

    def __init__(self, attempt: AttemptId, stop: Stop, report_period_s: float) -> None:
        self._attempt = attempt
        self._stop = stop
        self._report_period_s = report_period_s
        self._is_working = False
        self._step = "ok"
        self._params: Mapping[str, Any] = {}
        self.s3: Any = None
        self.begun: Callable[[], int] = lambda: 0

    def find_job(self, job: str, fetch: Callable[[str], Path]) -> FoundJob:
        if job != "probe":
            return FoundJob(lambda params, _: self._load(params))
        found = find_job(job, fetch)

        def load(params: Mapping[str, Any], await_session: Callable[[], None]) -> LoadedJob:
            probe = found.load(params, await_session)
            return LoadedJob(lambda _, running: self._probe(probe, running), probe.params)

        return FoundJob(load)

    def _load(self, params: Mapping[str, Any]) -> LoadedJob:
        plan = params["plan"]
        self._step = plan[min(self.begun(), len(plan) - 1)]
        self._params = params
        return LoadedJob(lambda _session, job: self._work(job), Params())

    version = "4"

    def begin(self, kind: JobKind) -> None:
        """There is nothing to boot."""

    def await_session(self, input_bytes: int = 0) -> None:
        """There is none."""

    def run(self, loaded: LoadedJob, job: RunningJob[Any]) -> None:
        loaded.run(None, job)  # type: ignore[arg-type]  # it needs no session

    def sample(self) -> SparkSample:
        return SparkSample()

    def effort(self) -> Effort:
        return Effort(seconds=1.0, cpu_s=1.0 if self._is_working else 0.0, io_bytes=0)

    def die_at(self, place: str) -> None:
        """SIGKILL, if the plan says so for this place."""
        if self._step == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def _probe(self, probe: LoadedJob, job: RunningJob[Any]) -> None:
        """The real probe. Its session's frames are counts, and written as so many rows."""

        def write(rows: int, **_: Any) -> int:
            self._write(job, [{"id": n} for n in range(rows)])
            return rows

        job.write = write  # type: ignore[method-assign,assignment]
        self._is_working = True
        probe.run(SimpleNamespace(range=lambda rows: rows), job)  # type: ignore[arg-type]

    def _work(self, job: RunningJob[Any]) -> None:
        self._is_working = True
        self._stop.wait(self._params.get("work_s", 0))
        until = self._params.get("until")
        while until and not Path(until).exists():
            self._stop.wait(_LOOKS_EVERY_S)
            self._stop.check()
        self._stop.check()
        self._is_working = False
        self.die_at("killed")
        match self._step:
            case "fails":
                raise RuntimeError(self._step)
            case "cannot succeed":
                raise PermanentJobError(self._step)
            case "writes nothing":
                return
            case "hangs":  # the main thread: the attempt is ended after its grace period
                while True:
                    signal.pause()
            case "hangs for good":  # after a report, and deaf to SIGTERM
                time.sleep(2 * self._report_period_s)
                os.kill(os.getpid(), signal.SIGSTOP)
        row: dict[str, Any] = {"key": self._attempt.key, "attempt": self._attempt.attempt}
        if reads := self._params.get("reads"):
            row["reads"] = {uri: self._read(uri) for uri in reads}
        if variables := self._params.get("variables"):
            row["variables"] = {name: os.environ.get(name) for name in variables}
        self._write(job, [row])

    def _read(self, uri: str) -> str:
        """The object's text, or the code of the error."""
        place = DataPath.on_s3(uri)
        try:
            body: bytes = self.s3.get_object(Bucket=place.bucket, Key=place.key)["Body"].read()
        except ClientError as error:
            return code_of(error)
        return body.decode()

    def _write(self, job: RunningJob[Any], rows: Sequence[Mapping[str, Any]]) -> None:
        folder = Path(str(job.folder_of(".")))
        folder.mkdir(parents=True)
        if job.table is not None:
            import pyarrow as pa  # noqa: PLC0415 - most stand-ins need none
            from pyarrow.parquet import write_table  # noqa: PLC0415

            layout = job.table.layout(".", _SCHEMA, ())
            table = pa.Table.from_pylist(list(rows), schema=pa.schema([("id", pa.int64())]))
            write_table(table, folder / f"part-00000-{uuid4()}.c000.snappy.parquet")
            job.written.append(Dataset(".", folder, len(rows), layout))
            return
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / "part-00000.json").write_text(lines)
        job.written.append(Dataset(".", folder, len(rows)))


class PlannedLeases:
    """The lease store, with the deaths around the commit."""

    def __init__(self, leases: Any, plan: Plan) -> None:
        self._leases = leases
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._leases, name)

    def report(self, report: Any) -> Any:
        if "output" not in report.sets:
            return self._leases.report(report)
        self._plan.die_at("killed with uploads")
        row = self._leases.report(report)
        self._plan.die_at("killed after its commit")
        return row


if __name__ == "__main__":
    sys.exit(main())
