"""Runs the demo: the whole system on this machine, with two crashes and checks of the results."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console

from examples.demo import check, kill, scenario
from examples.demo.flights import FetchError
from examples.demo.show import Show
from examples.demo.watch import DemoError, WatchedJob, Watcher
from longhaul.cli.local.aws import embedded_aws, roles_judge_if_any
from longhaul.cli.local.training import BackgroundTraining
from longhaul.cli.local_project import local_context, make_ready
from longhaul.cli.place import Place
from longhaul.cli.synth import kept_synth
from longhaul.cli.tables.query import query
from longhaul.cli.target import Target
from longhaul.config.project import load_project
from longhaul.config.settings import CONTEXT_KEY
from longhaul.core.clients import SystemClock
from longhaul.core.lease import State
from longhaul.core.settings import LeaseSettings
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client, child_environment
from longhaul.operations.tables import TableReader
from longhaul.saved.store import S3SavedWork

STACK = "Longhaul"
FOLDER = Path(__file__).resolve().parent
"""The project whose stack and jobs are run."""
FLIGHTS = FOLDER.parents[1] / ".cache" / "flights"
_LONGHAUL = (sys.executable, "-P", "-m", "longhaul.cli.cli")
STAGES = ("main", "months", "clean", "delays")
# Generous, for slow machines: they only end a demo that hangs.
_DONE_WITHIN_S = 600
_SETTLED_WITHIN_S = 60
_REPORT_WITHIN_S = 120
_MOST_ROWS = 100_000
# Parts that the join has stored when it is killed: not all are, if a look comes a second late.
_STORED = 3


@dataclass(frozen=True)
class Killed:
    job: WatchedJob
    at: float
    """Unix time."""
    parts: int
    """Of its output, stored before."""


@dataclass(frozen=True)
class Recovery:
    """The time from the kill of an attempt to the start of the next, in seconds."""

    noticed_s: float
    back_off_s: float
    redelivered_s: float
    started_s: float

    @property
    def total_s(self) -> float:
        return self.noticed_s + self.back_off_s + self.redelivered_s + self.started_s


def recovery(killed: Killed) -> Recovery:
    """How the killed job came back.

    Raises:
        DemoError: it was not tried a second time.
    """
    first, second = (*killed.job.attempts, None, None)[:2]
    if not (first and second and first.ended_at and second.due_at and second.attempt.started_at):
        raise DemoError(f"{killed.job.label} was killed, but not tried a second time")
    settled, retry = first.ended_at.timestamp(), second.due_at.timestamp()
    claimed = second.attempt.claimed_at.timestamp()
    return Recovery(
        settled - killed.at,
        retry - settled,
        max(0.0, claimed - retry),
        second.attempt.started_at.timestamp() - claimed,
    )


def run(
    console: Console, work_dir: Path, cache: Path = FLIGHTS, *, enforce_roles: bool = True
) -> int:
    """Run the demo, and write a report to the work dir, which the caller holds.

    Returns:
        the exit code: 0 when every check passed, else 1, with the reason on the console.

    Raises:
        SettingsError: the project's settings or jobs are wrong.
        SynthError: the stack could not be synthesized.
        DeployError: the stack could not be deployed.
    """
    begun, show = time.monotonic(), Show(console)
    try:
        with BackgroundTraining() as training:
            show.say("preparing 336,776 flights")
            inputs = scenario.prepare(cache)
            project = load_project(FOLDER)
            make_ready(project)
            context = local_context(project)
            assembly = kept_synth(
                work_dir / "cdk.out",
                context=context,
                project=FOLDER,
                begins=lambda: show.say("synthesizing the stack"),
            )
            timing = LeaseSettings.model_validate(context[CONTEXT_KEY]["lease"])
            iam = roles_judge_if_any(show.say) if enforce_roles else None
            show.say("starting an AWS in this process, and deploying the stack to it")
            with embedded_aws(work_dir, project=project, iam=iam) as aws:
                outputs = aws.deploy(assembly, STACK)
                show.say(f"stack {STACK} deployed to {aws.endpoint}; logs under {_short(work_dir)}")
                if training.is_at_work:
                    # Beside jobs it would take most of a minute from each of the first ones.
                    show.say("making Spark's AOT cache, once; then jobs begin")
                    training.wait()
                lines = _Demo(aws, outputs, inputs, show, timing).run()
                file = _report(aws, work_dir / "report.html")
            left = kill.processes_of(aws.endpoint)
            check.require(not left, f"processes left after the end: {list(left)}")
    except (DemoError, FetchError) as error:
        console.print(f"\nDEMO FAILED: {error}", style="bold red", markup=False, soft_wrap=True)
        console.print(f"logs: {_short(work_dir)}/functions, {_short(work_dir)}/tasks")
        return 1
    console.print()
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nreport: {_short(file)}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nall checks passed in {time.monotonic() - begun:.0f} s", style="bold green")
    console.print("next: `longhaul init NAME` makes a project of your own (docs/first-job.md)")
    return 0


def _report(aws: EmbeddedAws, file: Path) -> Path:
    """Write the page of all jobs by `longhaul console --export`, while the stack still stands.

    Raises:
        DemoError: the command failed.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [*_LONGHAUL, "console", "--stack", STACK, "--export", str(file)],  # also in a project
        env=own | child_environment(aws.endpoint, aws.region),
        capture_output=True,
        text=True,
        timeout=_REPORT_WITHIN_S,
        check=False,
    )
    check.require(done.returncode == 0, f"no report was written: {done.stderr}")
    return file


class _Demo:
    def __init__(
        self,
        aws: EmbeddedAws,
        outputs: dict[str, str],
        inputs: scenario.Inputs,
        show: Show,
        timing: LeaseSettings,
    ) -> None:
        def client(service: str) -> Any:  # noqa: ANN401 - one of boto3's clients
            return aws_client(service, endpoint=aws.endpoint, region=aws.region)

        self._sqs, self._s3, self._ecs, self._sfn = (
            client("sqs"),
            client("s3"),
            client("ecs"),
            client("stepfunctions"),
        )
        self._endpoint = aws.endpoint
        self._outputs = outputs
        self._bucket = outputs["DataBucketName"]
        self._inputs = inputs
        self._show = show
        self._timing = timing
        self._target = Target(Place(aws.endpoint, aws.region, None, embedded=True), None)
        self._tables = TableReader(client("glue"), self._s3, (scenario.FLIGHTS.database,))
        self._saved = S3SavedWork(self._s3, self._bucket)
        self._leases = self._target.parts.leases
        self._watcher = Watcher(self._leases, self._target.trees, SystemClock(), show.update)

    def run(self) -> list[str]:
        """Send the jobs, kill a month and the join, and check the results.

        Returns:
            the lines of the summary.

        Raises:
            DemoError: a check failed, or a job did not end in time.
        """
        for file in (*self._inputs.months, self._inputs.bad_rows):
            self._s3.upload_file(str(file), self._bucket, f"raw/{file.name}")
        timing = self._timing
        self._show.say(
            f"local numbers: first beat after {timing.beat_floor_s} s, "
            f"back-off from {timing.backoff_base_s} s (on AWS: 15 s and 10 s)"
        )
        self._submit(scenario.year(self._bucket))
        self._submit(scenario.bad_rows(self._bucket, self._inputs))
        self._sqs.send_message(
            QueueUrl=self._outputs["JobsQueueUrl"], MessageBody=scenario.INVALID_BODY
        )
        self._show.say("sent one submission for the year, 1 file with bad rows, 1 invalid body")
        killed = [
            self._kill("clean", check.MONTHS, unless=self._has_ended),
            self._kill("delays", 1, unless=self._is_not_in_its_middle),
        ]
        self._watcher.until(self._is_done, _DONE_WITHIN_S, "the whole pipeline")
        return [*self._summary(killed), "", *(f"ok  {line}" for line in self._checks(killed))]

    def _submit(self, job: scenario.SampleJob) -> None:
        self._watcher.add(job.key)
        self._sqs.send_message(
            QueueUrl=self._outputs[queue_output(job.stage)], MessageBody=job.body
        )
        self._watcher.look()

    def _is_done(self) -> bool:
        """Whether the last stage has a job, and every job has ended."""
        delays = self._watcher.of_stage("delays")
        return bool(delays) and all(job.is_finished for job in self._watcher.jobs.values())

    def _kill(self, stage: str, members: int, unless: Callable[[str], bool]) -> Killed:
        """Kill the job of the stage that was claimed last, once all `members` are claimed.

        Nothing else waits for a slot then, so the measured time is that of the retry alone. A tiny
        month runs for about a second: one that has committed is left alone, and another is killed.
        """
        killed: list[Killed] = []

        def hit() -> bool:
            jobs = self._watcher.of_stage(stage)
            claimed = [(job.attempts[0].attempt.claimed_at, job) for job in jobs if job.attempts]
            if len(claimed) < members:
                return False
            for _, job in sorted(claimed, key=itemgetter(0), reverse=True):
                if job.runs and self._kills(job.key, unless):
                    killed.append(Killed(job, time.time(), self._parts_of(job.key)))
                    return True
            return self._is_done()

        self._watcher.until(hit, _DONE_WITHIN_S, f"a job of {stage} to run")
        check.require(bool(killed), f"every job of {stage} ended before it could be killed")
        self._show.say(f"SIGKILL sent to the process group of {killed[0].job.label}")
        return killed[0]

    def _kills(self, key: str, unless: Callable[[str], bool]) -> bool:
        return kill.kill(key, self._endpoint, unless=partial(unless, key))

    def _has_ended(self, key: str) -> bool:
        """Whether the job's attempt has committed, or is over."""
        row = self._leases.load(key)
        return row is None or row.state is not State.RUNNING or row.attempt.output is not None

    def _is_not_in_its_middle(self, key: str) -> bool:
        """Whether it has stored too few parts of its output to be killed now, or all."""
        return self._has_ended(key) or not _STORED <= self._parts_of(key) < check.MONTHS

    def _parts_of(self, key: str) -> int:
        """How many parts of its output the job has stored."""
        row = self._leases.load(key)
        record = self._saved.load(row.saved_ref) if row and row.saved_ref else None
        return sum(map(len, record.parts.values())) if record else 0

    def _summary(self, killed: Sequence[Killed]) -> list[str]:
        jobs = [job for stage in STAGES for job in self._watcher.of_stage(stage)]
        return [
            f"{'job':16} {'outcome':10} attempts  beats   time    size",
            *(
                f"{job.label:16} {job.state:10} {len(job.attempts):8} {job.beats:6} "
                f"{job.seconds:5.1f} s  {job.sizes}"
                for job in jobs
            ),
            *(line for each in killed for line in self._lines_of(each)),
        ]

    def _lines_of(self, killed: Killed) -> list[str]:
        took = recovery(killed)
        return [
            "",
            (
                f"from the kill of {killed.job.label} to the start of its next attempt: "
                f"{took.total_s:.1f} s"
            ),
            (
                f"    noticed and released {took.noticed_s:.1f} s, "
                f"back-off {took.back_off_s:.1f} s, "
                f"received and claimed {took.redelivered_s:.1f} s, "
                f"task up {took.started_s:.1f} s"
            ),
            *(
                [f"    it went on after part {killed.parts} of {check.MONTHS}"]
                if killed.parts
                else []
            ),
        ]

    def _checks(self, killed: Sequence[Killed]) -> list[str]:
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
            check.sizes_are_right(cleaned, [each.job for each in killed]),
            check.join_went_on(killed[-1].job, killed[-1].parts, self._s3, self._bucket),
            check.no_row_was_lost(self._rows),
            check.bad_rows_were_quarantined(self._s3, self._bucket, self._inputs),
            check.delays_are_right(self._rows, self._inputs.months),
            check.every_long_job_had_a_heartbeat(jobs, self._timing),
            check.only_the_invalid_body_is_dead(letters),
            *(f"    dead letter: {letter['class']}: {letter['reason']}" for letter in letters),
            check.queues_are_empty(
                self._sqs, [self._outputs[queue_output(stage)] for stage in STAGES]
            ),
            check.nothing_runs(
                self._ecs, self._sfn, cluster, self._outputs["StateMachineArn"], self._endpoint
            ),
        ]

    def _rows(self, select: str) -> list[dict[str, Any]]:
        """The rows of a query, by DuckDB."""
        answer = query(self._tables, select, _MOST_ROWS, as_json=True)
        return [json.loads(str(row)) for (row,) in answer.rows]

    def _until_quiet(self) -> None:
        """Wait for the heartbeat branches, each of which ends at the next beat after its settle."""

        def quiet() -> bool:
            running = self._sfn.list_executions(
                stateMachineArn=self._outputs["StateMachineArn"], statusFilter="RUNNING"
            )
            return not running["executions"]

        self._watcher.until(quiet, _SETTLED_WITHIN_S, "the executions to end")


def queue_output(stage: str) -> str:
    """The name of the stack's output with the URL of a stage's queue."""
    return "JobsQueueUrl" if stage == STAGES[0] else f"{stage.capitalize()}QueueUrl"


def dead_letter_output(stage: str) -> str:
    """The name of the stack's output with the URL of a stage's dead-letter queue."""
    return "DeadLetterQueueUrl" if stage == STAGES[0] else f"{stage.capitalize()}DeadLetterQueueUrl"


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
