"""The runner, as a model: in the order of `jobs/attempt.py`, through the real adapters and the real uploader, with work that only takes time.

What it leaves out is what takes Spark: staging and the job itself are pauses, and what Spark would have written is a folder of small files.
"""

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from greenlet import GreenletExit, getcurrent

from jobs import failures
from jobs.emitting import Emitter
from jobs.io.existing import require_room
from jobs.io.publisher import Uploader
from jobs.io.written import Dataset
from jobs.reporting import Phase
from jobs.stopping import Stop, StopReason, StopRequestedError
from jobs.wiring import REPORTING
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.s3_publisher import S3Publisher
from longhaul.adapters.s3_requests import S3Requests
from longhaul.domain.errors import LeaseChangedError, PermanentJobError
from longhaul.domain.follow_ons import Emitted
from longhaul.domain.lease import CommittedOutput, Lease, RecordedResult, emitted_ref
from longhaul.domain.outcome import ExitCode, OutcomeClass
from longhaul.domain.paths import DataPath, parse_output
from longhaul.domain.request import Mode, parse_request
from longhaul.settings import Stage
from tests.simulation.endings import KINDS, OWN_FAULTS
from tests.simulation.hosts import HostClock, here
from tests.simulation.plan import Ending
from tests.simulation.requests import emitted_of
from tests.simulation.stages import members_of

if TYPE_CHECKING:
    from tests.simulation.containers import Container, Surroundings
    from tests.simulation.timeline import Event

_AWS = Config(retries={"mode": "standard", "total_max_attempts": 8})  # as the runner's
_DEADLINE_MARGIN_S = 30
_UNWIND_S = 5.0
_BOOT_S = 8.0
# Long jobs report less often than every few seconds, so that a world of days stays cheap; never so seldom that some lost ones would look like a stall.
_REPORTS = 30
_REPORTS_IN_A_STALL = 12

_RAISED: dict[str, type[Exception]] = {
    "fails": ValueError,
    "permanent": PermanentJobError,
    "no_output": failures.NoOutputError,
    "oom_in_jvm": MemoryError,
}
# It works as long as it has to; what happens to it comes from outside, or at its commit.
_WORKS_ON = (KINDS - OWN_FAULTS) | {"dies_before_commit"}
_EXITS = {"fails_silently": 1, "crashes": 139, "exits_with_0": 0}


class Runner:
    def __init__(self, container: "Container", around: "Surroundings") -> None:
        self._container = container
        self._settings = around.settings
        self._timeline = around.timeline
        self._host = container.host
        self._clock = HostClock(around.timeline)
        self._s3 = around.sdk.client("s3", config=_AWS)
        self._leases = DynamoLeases(
            around.sdk.client("dynamodb", config=_AWS), around.settings.leases_table, self._clock, self._host.rng
        )
        self._reports = DynamoLeases(
            around.sdk.client("dynamodb", config=REPORTING), around.settings.leases_table, self._clock, self._host.rng
        )
        bucket = around.settings.paths.data_bucket
        self._requests = S3Requests(self._s3, bucket)
        self._publisher = S3Publisher(self._s3, bucket, sleep=self._clock.sleep)
        self._output = around.output
        self._jobs = around.jobs
        self.stop = Stop()
        self.has_hung = False
        self._id = container.attempt
        self._ticks = 0
        self._phase = Phase.STAGING
        self._may_be_committed = False
        self._pauses: dict[Any, Event] = {}  # processes that a stop wakes
        self._reporter: Any = None
        self._finished = False
        self.stop.on_request(self._stop_requested)

    # As `jobs.runner` and `jobs.attempt` do it.

    def main(self) -> int:
        clock = self._clock
        try:
            lease = self._leases.register_task(self._id, self._container.task.arn, clock.now())
        except LeaseChangedError:
            self._container.end_kind = "superseded"
            return ExitCode.SUPERSEDED
        except (ClientError, BotoCoreError):
            self._container.end_kind = "could not register"
            return ExitCode.INTERRUPTED
        self._container.has_worked = True
        try:
            deadline = self._timeline.after(
                lease.input.timeout_s + _DEADLINE_MARGIN_S, lambda: self._request_stop(StopReason.DEADLINE)
            )
            self._start_reporting(lease)
            try:
                self._publish(lease.output or self._produce(lease))
            finally:
                self._finish_reporting()
                deadline.cancel()
        except Exception as error:  # noqa: BLE001 - as in jobs.attempt: whatever went wrong becomes an outcome
            return self._fail(error)
        self._container.end_kind = "done"
        return ExitCode.OK

    def hear_sigterm(self) -> None:
        self._host.run(lambda: self.stop.request(StopReason.TERMINATED, "SIGTERM"), _raised)

    def record(self, failure: failures.Failure) -> None:
        if failure.kind is OutcomeClass.SUPERSEDED:
            return
        try:
            self._leases.record_result(self._id, RecordedResult(self._id.attempt, failure.kind.value, failure.error))
        except (LeaseChangedError, ClientError, BotoCoreError):
            return

    def _produce(self, lease: Lease) -> CommittedOutput:
        stage = self._settings.stage(lease.stage)
        request = parse_request(self._requests.get(lease.request_ref).body, self._settings, stage)
        destination = parse_output(request.output, self._settings.paths)
        require_room(self._s3, destination, request.mode, self._id)
        self._work(lease, int(json.loads(json.dumps(request.params)).get("work", 0)))
        return self._commit(stage, destination, request.mode)

    def _work(self, lease: Lease, work: int) -> None:
        ending = self._container.job.ending(self._id.attempt, work)
        self._timeout_s = lease.input.timeout_s
        self._container.work_known(work, ending)
        self._pause(_BOOT_S)
        self._enter(Phase.RUNNING)
        self._go_through(ending)
        self.stop.check()

    def _go_through(self, ending: Ending) -> None:
        kind = ending.kind
        if kind in _WORKS_ON:
            if self._container.job.work_s >= self._timeout_s:
                self._container.fault_of_job = "endless"
            self._advance(self._container.job.work_s)
            return
        if kind == "endless":
            self._container.fault_of_job = kind
            while True:
                self._advance(3_600)
        self._advance(ending.after_s)
        self._container.fault_of_job = kind
        if kind == "jvm_hangs":
            self._hang()
        if kind == "hangs":
            self.has_hung = self._finished = True
            self._hang()
        if kind == "oom_killed":
            self._exit(137, kind, "OutOfMemoryError: Container killed due to memory usage")
        if kind in _EXITS:
            self._exit(_EXITS[kind], kind)
        raise _RAISED[kind](kind)

    def _commit(self, stage: Stage, destination: DataPath, mode: Mode) -> CommittedOutput:
        uploader = Uploader(
            self._s3,
            self._settings.paths.data_bucket,
            self.stop,
            begin=lambda _size: self._enter(Phase.PUBLISHING),
            advance=lambda _size: self._tick(),
        )
        datasets = [Dataset(".", self._output / str(self._container.job.files), 3)]
        output = uploader.upload(self._id, str(destination), datasets, mode)
        if self._container.job.fan_out is not None and stage.next:
            output = replace(output, emitted_ref=emitted_ref(self._id))
            self._requests.put_emitted(emitted_ref(self._id), self._emitted(stage))
        self.stop.check()
        require_room(self._s3, destination, mode, self._id)
        if self._container.ending.kind == "dies_before_commit":
            self._container.fault_of_job = "dies_before_commit"
            self._exit(137, "dies_before_commit")
        self._may_be_committed = True
        try:
            self._leases.commit(self._id, output)
        except LeaseChangedError as error:
            self._may_be_committed = False
            if error.current is not None and error.current.owns(self._id) and error.current.cancel_requested_at:
                self.stop.request(StopReason.CANCELLED, "cancelled on request")
            raise
        if self._container.ending.kind == "uploads_end":
            self._publisher.discard(self._id)
        if self._container.ending.kind in ("dies_after_commit", "uploads_end"):
            self._exit(137, self._container.ending.kind)
        return output

    def _emitted(self, stage: Stage) -> Emitted:
        """As `job.emit` takes it."""
        emitter = Emitter(self._settings, stage)
        members = [self._jobs[name] for name in members_of(self._container.job)]
        emitter.emit([emitted_of(each, self._settings.paths.data_bucket) for each in members], None)
        return emitter.requests or {}

    def _publish(self, output: CommittedOutput) -> None:
        self._may_be_committed = True
        self._publisher.publish(output)
        try:
            self._leases.mark_published(self._id, self._clock.now())
        except LeaseChangedError:
            return

    def _fail(self, error: Exception) -> int:
        if isinstance(error, AssertionError | TypeError | KeyError | AttributeError):
            raise error  # no failure of a job: the simulation's own, or the product's, to be looked at
        failure = failures.of_stop(self.stop) if self.stop.requested else failures.of_error(error)
        self._container.end_kind = failure.kind.value
        self.record(failure)
        if not self._may_be_committed:
            with suppress(ClientError, BotoCoreError):  # settle does it again
                self._publisher.discard(self._id)
        return failure.exit_code

    # Waiting, progress, stops.

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._ticks += 1

    def _tick(self) -> None:
        self._ticks += 1

    def _advance(self, seconds: float) -> None:
        """Work: progress goes on."""
        self._ticks += 1_000_000
        self._is_working = True
        self._pause(seconds)
        self._is_working = False

    _is_working = False

    def _pause(self, seconds: float) -> None:
        """Wait; a stop ends it."""
        here()
        process = getcurrent()
        self._pauses[process] = self._timeline.after(seconds, process.go_on)
        if self.stop.requested:
            self._wake()
        process.give_way()
        self._pauses.pop(process, None)
        self.stop.check()

    def _hang(self) -> None:
        getcurrent().give_way()
        raise AssertionError("nothing wakes a hung process")

    def _wake(self) -> None:
        for process, event in self._pauses.items():
            event.cancel()
            self._timeline.after(0, process.go_on)
        self._pauses.clear()

    def _exit(self, code: int, kind: str, reason: str | None = None) -> None:
        self._container.end_kind = kind
        self._container.exit(code, reason)
        raise GreenletExit

    def _request_stop(self, reason: StopReason) -> None:
        """From the timeline."""
        if self._host.alive and not self.has_hung:
            self._host.run(lambda: self.stop.request(reason, reason.value), _raised)

    def _stop_requested(self) -> None:
        self._wake()
        self._host.run(self._end_soon, _raised)

    def _end_soon(self) -> None:
        """The last resort: the main thread may be stuck."""
        self._timeline.sleep(min(_UNWIND_S, self._settings.lease.stop_timeout_s / 2))
        failure = failures.of_stop(self.stop)
        self.record(failure)
        self._exit(failure.exit_code, failure.kind.value)

    # Reporting, as `jobs.reporting`.

    def _start_reporting(self, lease: Lease) -> None:
        job = self._container.job
        longest = min(job.work_s, lease.input.timeout_s)
        self._period_s = max(
            self._settings.lease.progress_period_s, min(longest / _REPORTS, lease.stall_timeout_s / _REPORTS_IN_A_STALL)
        )
        self._give_up_s = lease.stall_timeout_s
        self._advanced_at = self._written_at = self._clock.now()
        self._seen = -1
        self._reporter = self._host.run(self._report_on, _raised)

    def _finish_reporting(self) -> None:
        self._finished = True
        event = self._pauses.pop(self._reporter, None)
        if event is not None:
            event.cancel()
            return  # it waits: nothing to wait for
        while not self._reporter.dead and self._host.alive:
            self._timeline.sleep(0.05)

    def _report_on(self) -> None:
        while not self._finished and not self.stop.requested:
            try:
                self._pause(self._period_s)
            except StopRequestedError:
                return
            if not self._finished:
                self._report()

    def _report(self) -> None:
        now = self._clock.now()
        if self._is_working or self._ticks != self._seen:
            self._advanced_at = now
        self._seen = self._ticks
        try:
            lease = self._reports.report_progress(self._id, {"phase": self._phase.value}, self._advanced_at)
        except LeaseChangedError:
            self.stop.request(StopReason.SUPERSEDED, "this attempt does not own the job any more")
        except (ClientError, BotoCoreError):
            if (now - self._written_at).total_seconds() > self._give_up_s:
                self.stop.request(StopReason.UNREPORTABLE, "could not report progress")
        else:
            self._written_at = now
            if lease.cancel_requested_at is not None:
                self.stop.request(StopReason.CANCELLED, "cancelled on request")


def _raised(error: BaseException | None, _answer: Any) -> None:
    if error is not None:
        raise error
