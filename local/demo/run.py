"""The demo: the whole system on this machine, under load, with a crash, and with checks of its own."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from jobs.data.flights import FetchError
from local.cloud import EmbeddedAws
from local.credentials import aws_client
from local.demo import check, kill, scenario
from local.demo.show import Show, show_on
from local.demo.watch import DemoError, Watched, Watcher
from local.spark_cache import BackgroundTraining
from local.synth import REPOSITORY, synth
from local.work_dir import occupied
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.domain.lease import State
from longhaul.settings import LeaseSettings

STACK = "Longhaul"
STAGES = ("main", "months", "clean", "delays")
# Generous: they end a demo that hangs, on any machine; they are no measure of speed.
_DONE_WITHIN_S = 600
_SETTLED_WITHIN_S = 60


@dataclass(frozen=True)
class Recovery:
    """From the kill of an attempt to the start of the next, in seconds. The parts add up to `total_s`."""

    noticed_s: float
    back_off_s: float
    redelivered_s: float
    started_s: float

    @property
    def total_s(self) -> float:
        return self.noticed_s + self.back_off_s + self.redelivered_s + self.started_s


def run(
    console: Console,
    work_dir: Path,
    report: Callable[[str, str], Path],
    cache: Path = REPOSITORY / ".cache" / "flights",
) -> int:
    """Run the demo; 0 when every check held, 1 otherwise, with the reason on the console.

    `report` writes the report, given endpoint and region of the embedded AWS while it still runs; it answers the file.

    Raises:
        WorkDirError: another embedded AWS works in that folder, or it holds files of others.
    """
    begun = time.monotonic()
    try:
        with occupied(work_dir), BackgroundTraining(), show_on(console) as show:
            show.say("preparing 336,776 flights, synthesizing the stack")
            inputs = scenario.prepare(cache)
            assembly = synth(work_dir / "cdk.out")
            with EmbeddedAws(work_dir=work_dir) as aws:
                outputs = aws.deploy(assembly, STACK)
                show.say(f"stack {STACK} deployed to {aws.endpoint}; logs under {_short(work_dir)}")
                lines = _Demo(aws, outputs, inputs, show).run()
                file = report(aws.endpoint, aws.region)
            left = kill.task_processes()
            check.require(not left, f"processes left after the end: {left}")
    except (DemoError, FetchError) as error:
        console.print(f"\nDEMO FAILED: {error}", style="bold red", markup=False, soft_wrap=True)
        console.print(f"logs: {_short(work_dir)}/functions, {_short(work_dir)}/tasks")
        return 1
    console.print()
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nreport: {_short(file)}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nall checks passed in {time.monotonic() - begun:.0f} s", style="bold green")
    return 0


class _Demo:
    def __init__(self, aws: EmbeddedAws, outputs: dict[str, str], inputs: scenario.Inputs, show: Show) -> None:
        def client(service: str) -> Any:  # noqa: ANN401 - one of boto3's clients
            return aws_client(service, endpoint=aws.endpoint, region=aws.region)

        self._sqs, self._s3, self._ecs, self._sfn = client("sqs"), client("s3"), client("ecs"), client("stepfunctions")
        self._outputs = outputs
        self._bucket = outputs["DataBucketName"]
        self._inputs = inputs
        self._show = show
        self._numbers = _local_numbers()
        clock = SystemClock()
        leases = DynamoLeases(client("dynamodb"), outputs["LeasesTableName"], clock, random.Random())  # noqa: S311 - jitter
        self._watcher = Watcher(leases, clock, show.update)

    def run(self) -> list[str]:
        """Answers the lines of the summary.

        Raises:
            DemoError: something is not as it must be.
        """
        for file in (*self._inputs.months, self._inputs.bad_rows):
            self._s3.upload_file(str(file), self._bucket, f"raw/{file.name}")
        numbers = self._numbers
        self._show.say(
            f"local numbers: first beat after {numbers.beat_floor_s} s, back-off from {numbers.backoff_base_s} s (on AWS: 15 s and 10 s)"
        )
        self._submit(scenario.year(self._bucket))
        self._submit(scenario.bad_rows(self._bucket, self._inputs))
        self._sqs.send_message(QueueUrl=self._outputs["JobsQueueUrl"], MessageBody=scenario.INVALID_BODY)
        self._show.say("sent one submission for the year, 1 file with bad rows, 1 invalid body")
        victim, killed_at = self._kill()
        self._watcher.until(self._is_done, _DONE_WITHIN_S, "the whole pipeline")
        return [*self._summary(victim, killed_at), "", *(f"ok  {line}" for line in self._checks())]

    def _submit(self, submission: scenario.Submission) -> None:
        self._watcher.add(submission.key)
        self._sqs.send_message(QueueUrl=self._outputs[queue_output(submission.stage)], MessageBody=submission.body)
        self._watcher.look()

    def _is_done(self) -> bool:
        """The last stage is there, and every job has come to its end."""
        delays = self._watcher.of_stage("delays")
        return bool(delays) and all(job.is_finished for job in self._watcher.jobs.values())

    def _kill(self) -> tuple[Watched, float]:
        """SIGKILL to the process group of the last month's task, as soon as its row says that it runs. Answers which, and when, as a Unix time.

        The last to be claimed: what is measured is then the retry, and not the wait for a slot behind a backlog.
        """

        def claimed() -> list[Watched]:
            return [job for job in self._watcher.of_stage("clean") if job.lease is not None]

        self._watcher.until(lambda: len(claimed()) == check.MONTHS, _DONE_WITHIN_S, "all months to be claimed")
        victim = max(claimed(), key=lambda job: job.attempts[1].claimed_at)

        def runs() -> bool:
            return victim.lease is not None and (victim.lease.task_arn is not None or victim.lease.state.is_terminal)

        self._watcher.until(runs, _DONE_WITHIN_S, f"{victim.label} to run")
        killed_at = time.time()
        running = victim.lease is not None and victim.lease.state is State.RUNNING
        check.require(running and kill.kill(victim.key), f"{victim.label} ended before it could be killed")
        self._show.say(f"SIGKILL sent to the process group of {victim.label}")
        return victim, killed_at

    def _recovery(self, job: Watched, killed_at: float) -> Recovery:
        first, second = job.attempts.get(1), job.attempts.get(2)
        row = job.lease
        complete = row and first and second and first.settled_at and second.started_at and row.retry_at
        check.require(bool(complete), f"{job.label} was killed, but not tried a second time")
        if not (row and first and second and first.settled_at and second.started_at and row.retry_at):
            raise DemoError("unreachable")
        settled, retry = first.settled_at.timestamp(), row.retry_at.timestamp()
        claimed = second.claimed_at.timestamp()
        return Recovery(
            settled - killed_at, retry - settled, max(0.0, claimed - retry), second.started_at.timestamp() - claimed
        )

    def _summary(self, victim: Watched, killed_at: float) -> list[str]:
        recovery = self._recovery(victim, killed_at)
        jobs = [job for stage in STAGES for job in self._watcher.of_stage(stage)]
        return [
            f"{'job':16} {'outcome':10} attempts  beats   time",
            *(
                f"{job.label:16} {job.state:10} {len(job.attempts):8} {job.beats:6} {job.seconds:5.1f} s"
                for job in jobs
            ),
            "",
            f"from the kill of {victim.label} to the start of its next attempt: {recovery.total_s:.1f} s",
            (
                f"    noticed and released {recovery.noticed_s:.1f} s, back-off {recovery.back_off_s:.1f} s, "
                f"received and claimed {recovery.redelivered_s:.1f} s, task up {recovery.started_s:.1f} s"
            ),
        ]

    def _checks(self) -> list[str]:
        jobs = list(self._watcher.jobs.values())
        cleaned, (delays,) = self._watcher.of_stage("clean"), self._watcher.of_stage("delays")
        self._until_quiet()
        letters = [
            letter
            for stage in STAGES
            for letter in check.dead_letters(self._sqs, self._outputs[dead_letter_output(stage)])
        ]
        cluster = self._ecs.list_clusters()["clusterArns"][0]
        return [
            check.every_job_succeeded(jobs),
            check.one_submission_became(jobs, cleaned, delays),
            check.no_row_was_lost(self._s3, cleaned),
            check.bad_rows_were_quarantined(self._s3, self._bucket, self._inputs),
            check.delays_are_right(self._s3, delays, self._inputs.months),
            check.every_long_job_had_a_heartbeat(jobs, self._numbers),
            check.only_the_invalid_body_is_dead(letters),
            *(f"    dead letter: {letter['class']}: {letter['reason']}" for letter in letters),
            check.queues_are_empty(self._sqs, [self._outputs[queue_output(stage)] for stage in STAGES]),
            check.nothing_runs(self._ecs, self._sfn, cluster, self._outputs["StateMachineArn"]),
        ]

    def _until_quiet(self) -> None:
        """The heartbeat branch ends at the beat after its job settled: seconds, at most one wait."""

        def quiet() -> bool:
            running = self._sfn.list_executions(
                stateMachineArn=self._outputs["StateMachineArn"], statusFilter="RUNNING"
            )
            return not running["executions"]

        self._watcher.until(quiet, _SETTLED_WITHIN_S, "the executions to end")


def queue_output(stage: str) -> str:
    """The stack's output that has the URL of a stage's queue."""
    return "JobsQueueUrl" if stage == STAGES[0] else f"{stage.capitalize()}QueueUrl"


def dead_letter_output(stage: str) -> str:
    return "DeadLetterQueueUrl" if stage == STAGES[0] else f"{stage.capitalize()}DeadLetterQueueUrl"


def _local_numbers() -> LeaseSettings:
    profile = json.loads((REPOSITORY / "local" / "profile.json").read_text())
    return LeaseSettings.model_validate(profile["longhaul"]["lease"])


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
