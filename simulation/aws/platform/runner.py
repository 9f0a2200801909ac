"""What a task or an invocation runs: the real attempt, with a Spark whose job only takes time.

The plan says how the job goes. In the place of staging there is nothing, and what Spark would have
written is a folder of small files.
"""

import errno
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from longhaul.core.beat import longest_report_wait_s
from longhaul.core.errors import PermanentJobError
from longhaul.core.job_kinds import JobKind
from longhaul.core.lease import Lease
from longhaul.core.places import DataPath, InputPath
from longhaul.core.ports import Leases
from longhaul.core.settings import RuntimeSettings
from longhaul.core.transitions import Report
from longhaul.core.verdict import ExitCode
from longhaul.job import Params
from longhaul.outputs.manifest import MAIN
from longhaul.outputs.pending import Publisher
from longhaul.runner.io.listing import InputListing, Source, UnnamedFileError, digest_of
from longhaul.runner.io.saved_files import DiskFiles, S3Objects, SavedFiles
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import Moving, VanishedError, look_twice
from longhaul.runner.io.written import Dataset
from longhaul.runner.loading import FoundJob, LoadedJob
from longhaul.runner.reporting import Effort
from longhaul.runner.resources import Resources
from longhaul.runner.running_job import RunningJob
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop, StopReason
from longhaul.runner.task import Task
from longhaul.runner.wiring import put_together, s3_client, tables_from
from simulation.aws.platform.hosts import HostClock, Waiter, here, wait_for_good
from simulation.aws.platform.parts import COLUMNS, WorkInParts
from simulation.worlds.endings import EMR_FAULTS, KINDS, OWN_FAULTS
from simulation.worlds.requests import OWN_OUTPUT, emitted_of
from simulation.worlds.results import measured, returned
from simulation.worlds.secrets import VARIABLES
from simulation.worlds.stages import is_too_many, members_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from simulation.aws.platform.job_process import JobProcess
    from simulation.worlds.plan import Ending
    from simulation.worlds.plan import Job as PlannedJob

_BOOT_S = 8.0
_NO_SCRATCH = Path("/nonexistent/longhaul")
_RESOURCES = Resources(cores=2, memory_mib=4096)
# Jobs of more than ten minutes report less often than they would, so that a world of days stays
# cheap. They report often enough that a few lost reports do not look like a stall.
_REPORTS = 40
_REPORTS_IN_A_STALL = 20

# The job works as long as it has to; what happens to it comes from outside, or at its commit.
_WORKS_ON = (KINDS - OWN_FAULTS - {"disk_full"}) | {"dies_before_commit"}
_RAISES: Mapping[str, Callable[[], Exception]] = {
    "fails": lambda: ValueError("fails"),
    "permanent": lambda: PermanentJobError("permanent"),
    "disk_full": lambda: OSError(errno.ENOSPC, "No space left on device"),
}
_EXITS = {"fails_silently": 1, "crashes": 139, "exits_with_0": 0}
_KILLED = 137
_LOOK_S = 15.0  # for executors


def main(container: "JobProcess", stop: Stop) -> int:
    """The main program of a process: as `longhaul.engines.fargate.runner`."""
    world = container.world
    s3 = s3_client(world.settings)
    scratch = _scratch_of(container)
    area = PlannedArea(scratch, container, s3)
    spark = PlannedSpark(container, stop, area)
    attempt = put_together(
        container.attempt,
        _with_rare_reports(world.settings, container.job),
        s3,
        task=Task(container.task_ref, _RESOURCES),
        scratch=scratch,
        area=area,
        spark=spark,
        stop=stop,
        background=container.background,
        tables=tables_from(world.settings, s3),
        find_job=spark.find_job,
        effort=spark.effort,
        clock=HostClock(world.timeline),
        rng=container.host.rng,
    )
    leases = PlannedLeases(attempt.leases, container, attempt.publisher)
    attempt.leases = cast("Leases", leases)
    attempt.give = container.given
    if world.plan.secret:
        attempt.variables = {each.name: VARIABLES for each in world.settings.stages}
    # The same in each run of a world. (A draw of the host's would change what follows.)
    attempt.new_seal = lambda: sha256(container.task_ref.encode()).hexdigest()[:32]
    attempt.end_when_stopped(container.end_process)
    code = attempt.run()
    if "thread failed" in stop.detail:
        raise AssertionError(stop.detail)
    container.end_kind = code.name.lower()
    if code is ExitCode.FAILED and "denied" in container.host.facts:
        # What its request names: people write which buckets and tables that may be.
        container.fault_of_job = container.fault_of_job or "denied"
    return code


class PlannedArea:
    """`longhaul.runner.io.work_area.WorkArea` whose output is there already.

    Of the inputs only the job's own output is looked at.
    """

    def __init__(self, scratch: Path, container: "JobProcess", s3: "S3Client") -> None:
        self._cluster = container.work_area(s3)
        self.output = self._cluster.output if self._cluster else scratch / "output"
        self._scratch = scratch
        self._container = container

    @property
    def is_of_cluster(self) -> bool:
        return self._cluster is not None

    def stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> Mapping[str, StagedInput]:
        return look_twice(lambda: self._stage(listing, inputs, moving.stop))

    def _stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], stop: Stop
    ) -> Mapping[str, StagedInput]:
        # The first compaction finds nothing; a real one would fail for good.
        container, own = self._container, inputs.get(OWN_OUTPUT)
        version = self._version()
        digests = dict.fromkeys(inputs, version)
        if isinstance(own, DataPath) and (sources := self._sources_of(listing, own)):
            container.read_own_at = container.host.timeline.clock.now()
            digests[OWN_OUTPUT] = digest_of(sources)
        container.reads = json.dumps(digests, sort_keys=True)
        if self._cluster is None and container.job.late_s:
            HostClock(container.world.timeline).sleep(container.job.late_s)
            stop.check()
            if version != self._version():
                raise VanishedError("an input")
        return {
            name: StagedInput(str(path), 1, 1, frozenset(), digests[name])
            for name, path in inputs.items()
        }

    def _sources_of(self, listing: InputListing, own: DataPath) -> list[Source]:
        try:
            return listing.sources_of(own)
        except UnnamedFileError:
            # Another one publishes there for the first time, and nothing lets this job wait.
            self._container.fault_of_job = "unnamed"
            raise

    def _version(self) -> str:
        container = self._container
        return str(container.world.versions.get(("inputs", container.job.name), 0))

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        if self._cluster is not None:
            return self._cluster.saved_files(objects)
        return DiskFiles(objects, self._scratch / "saved")

    def clear(self) -> None:
        """Others use the folder too."""
        if self._cluster is not None:
            self._cluster.clear()


class PlannedLeases:
    """The lease store, with what the plan has in store for the attempt at its commit."""

    def __init__(self, leases: Leases, container: "JobProcess", publisher: Publisher) -> None:
        self._leases = leases
        self._container = container
        self._publisher = publisher

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._leases, name)
        return found

    def report(self, report: Report) -> Lease:
        if "output" in report.sets:
            return self._commit(report)
        lease = self._leases.report(report)
        if "task_arn" in report.sets:
            self._container.has_worked = True
            if self._container.job.work_s >= lease.input.timeout_s:
                self._container.outlasts_timeout = True
        return lease

    def _commit(self, commit: Report) -> Lease:
        kind = self._container.ending.kind
        if kind == "dies_before_commit":
            self._container.fault_of_job = kind
            self._container.end_as(kind, _KILLED)
        lease = self._leases.report(commit)
        if kind == "uploads_end":
            self._publisher.discard(lease.id)
        if kind in ("dies_after_commit", "uploads_end"):
            self._container.end_as(kind, _KILLED)
        return lease


class PlannedSpark:
    """`longhaul.runner.attempt.Spark`, and its job.

    As with the real one, a stop ends what the main process waits for.
    """

    def __init__(self, container: "JobProcess", stop: Stop, area: PlannedArea) -> None:
        self._area = area
        self._container = container
        self._world = container.world
        self._stop = stop
        self._is_working = False
        self._worked_s = 0.0
        self._waiter = Waiter(container.timeline)
        self._kind = JobKind.SPARK
        stop.on_request(self._waiter.wake_soon)

    def find_job(self, _job: str, _fetch: Callable[[str], Path]) -> FoundJob:
        """`longhaul.runner.loading.find_job`."""
        planned, container = self._container.job, self._container
        container.code = self._world.versions.get(("code", planned.name), 0)
        # A cluster refuses it.
        is_plain = planned.has_no_spark and not self._area.is_of_cluster

        def load(params: Mapping[str, Any], _: Callable[[], None]) -> LoadedJob:
            work = cast("int", params.get("work", 0))
            container.work_known(work, planned.ending(container.attempt.attempt, work))
            return LoadedJob(lambda _session, job: self._play(planned, job), Params())

        return FoundJob(
            load,
            str(container.code),
            JobKind.PLAIN if is_plain else JobKind.SPARK,
        )

    version = "4"

    def begin(self, kind: JobKind) -> None:
        self._kind = kind

    def await_session(self, input_bytes: int = 0) -> None:
        del input_bytes
        if self._kind is JobKind.PLAIN:
            raise AssertionError("a JVM boots for a job without Spark")
        self._pause(_BOOT_S)

    def run(self, loaded: LoadedJob, job: RunningJob[Any]) -> None:
        loaded.run(cast("Any", None), job)

    def sample(self) -> SparkSample:
        return SparkSample(waits_for_executors=self._container.waits_for_executors)

    def effort(self) -> Effort:
        return Effort(seconds=1.0, cpu_s=1.0 if self._is_working else 0.0, io_bytes=0)

    def _play(self, planned: "PlannedJob", job: RunningJob[Any]) -> None:
        self._world.seen.check("parents read", job.parents)
        if self._kind is JobKind.PLAIN:
            job.progress("working", done=0, total=1)
            self._pause(_BOOT_S)  # so that it takes as long as one with Spark
        has_output = self._container.ending.kind != "no_output"
        is_in_parts = planned.parts and has_output
        if is_first := planned.beside and has_output and not is_in_parts:
            self._write(planned, job)  # and it is sent while the job works
        if is_in_parts:
            WorkInParts(self._container, job, self._work_on).run()
        elif self._container.ending.kind in EMR_FAULTS:
            self._lose_executors(self._container.ending.after_s, planned.work_s)
        else:
            self._go_through(self._container.ending, planned.work_s)
        if not has_output:
            return
        if not (is_in_parts or is_first):
            self._write(planned, job)
        for name in job.outputs:
            folder = self._container.output(planned.files, self._area.output)
            job.written.append(Dataset(MAIN, folder, 3, output=name))
        token = self._container.attempt.token
        job.result = returned(token)
        for name, value in measured(token).items():
            job.metric(name, value)
        if planned.fan_out is not None and job.emitter.following:
            bucket = self._world.settings.paths.data_bucket
            members = [self._world.jobs[name] for name in members_of(planned)]
            if is_too_many(planned, self._world.plan):
                self._container.fault_of_job = "permanent"
            job.emit(*[emitted_of(each, bucket) for each in members])

    def _work_on(self, seconds: float) -> None:
        """Work that long, unless the attempt ends before; 0: do what is left of its ending."""
        ending = self._container.ending
        left_s = ending.after_s - self._worked_s
        if ending.kind in EMR_FAULTS:
            self._worked_s += seconds
            if 0 <= left_s < seconds:
                self._lose_executors(left_s, seconds)
            else:
                self._work(seconds)
            return
        if ending.kind in _WORKS_ON:
            self._go_through(ending, seconds)
            return
        if seconds and seconds < left_s:
            self._work(seconds)
            self._worked_s += seconds
            return
        self._go_through(replace(ending, after_s=max(0.0, left_s)), seconds)

    def _write(self, planned: "PlannedJob", job: RunningJob[Any]) -> None:
        layout = job.layout(job.table, MAIN, COLUMNS, ()) if job.table else None
        dataset = Dataset(MAIN, self._container.output(planned.files, self._area.output), 3, layout)
        job.written.append(dataset)

    def _lose_executors(self, after_s: float, work_s: float) -> None:
        self._work(min(after_s, work_s))
        self._container.lose_executors()
        self._work(max(0.0, work_s - after_s))

    def _go_through(self, ending: "Ending", work_s: float) -> None:
        container, kind = self._container, ending.kind
        if kind in _WORKS_ON:
            if container.outlasts_timeout:
                container.fault_of_job = "endless"
            self._work(work_s)
            return
        if kind == "endless":
            container.fault_of_job = kind
            while True:
                self._work(3_600)
        self._work(ending.after_s)
        if kind != "disk_full":
            container.fault_of_job = kind
        if kind in _RAISES:
            error = _RAISES[kind]()
            # As a driver quotes the address that it cannot log in at.
            raise ValueError(f"{error}: {container.secret}") if container.secret else error
        match kind:
            case "no_output":
                return
            case "oom_in_jvm":
                self._run_out_of_memory()
            case "jvm_hangs":  # and no stop frees the main thread
                wait_for_good()
            case "hangs":  # with all its threads
                container.host.kill()
                wait_for_good()
            case "oom_killed":
                reason = "OutOfMemoryError: Container killed due to memory usage"
                container.end_as(kind, _KILLED, reason)
        container.end_as(kind, _EXITS[kind])

    def _run_out_of_memory(self) -> NoReturn:
        if self._kind is JobKind.PLAIN:
            raise MemoryError
        # As `longhaul.runner.spark.driver` notices it.
        self._stop.request(StopReason.OUT_OF_MEMORY, "Spark's JVM ran out of memory")
        raise ConnectionResetError

    def _work(self, seconds: float) -> None:
        while not self._container.has_executors():
            self._container.waits_for_executors = True
            self._pause(_LOOK_S)
        self._container.waits_for_executors = False
        self._is_working = True
        self._pause(seconds)
        self._is_working = False

    def _pause(self, seconds: float) -> None:
        """Wait; a stop ends it with an error."""
        here()
        self._stop.check()
        self._waiter.wait(seconds)
        self._stop.check()


def _scratch_of(container: "JobProcess") -> Path:
    """The disk of a process, which is empty when it begins."""
    if not container.job.parts:
        return _NO_SCRATCH
    name = sha256(container.task_ref.encode()).hexdigest()[:32]
    scratch = container.world.output / "scratch" / name
    shutil.rmtree(scratch, ignore_errors=True)
    return scratch


def _with_rare_reports(settings: RuntimeSettings, job: "PlannedJob") -> RuntimeSettings:
    stage = settings.stages[0]
    longest_s = min(job.work_s, job.timeout_s or stage.timeout_s)
    stall_s = job.stall_timeout_s or stage.stall_timeout_s
    period_s = min(longest_s / _REPORTS, stall_s / _REPORTS_IN_A_STALL)
    if period_s <= longest_report_wait_s(settings.lease, stall_s):
        return settings
    lease = settings.lease.model_copy(update={"progress_period_s": period_s})
    return settings.model_copy(update={"lease": lease})
