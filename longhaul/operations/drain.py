"""Bring a stack to rest, so that it can be taken down, and wake it again.

Each step looks at what is there before it acts, so an interrupted drain is simply run again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.domain.lease import Lease, Owed, State
from longhaul.operations.find import Jobs
from longhaul.operations.stage_counts import StageCounter
from longhaul.ports import Clock, Executions, Slots, Tasks
from longhaul.settings import RuntimeSettings, Stage

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

_LOOK_S: Final = 2.0
_REASON: Final = "longhaul stage drain --stop"


@dataclass(frozen=True)
class Activity:
    """What goes on. `jobs` are those that run, or have ended and still owe more than a deletion."""

    jobs: int
    executions: Sequence[str] = ()
    tasks: int = 0

    def __bool__(self) -> bool:
        return bool(self.executions or self.tasks or self.jobs)

    def __str__(self) -> str:
        parts = (
            (self.jobs, "job"),
            (len(self.executions), "execution"),
            (self.tasks, "task"),
        )
        return ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in parts if n)


@dataclass(frozen=True)
class Waiting:
    """Messages of a stage that wait: their jobs start once the stack is awake again."""

    stage: str
    messages: int
    dead_letters: int


@dataclass
class Drainer:
    settings: RuntimeSettings
    clock: Clock
    jobs: Jobs
    counter: StageCounter
    slots: Slots
    executions: Executions
    tasks: Tasks
    stepfunctions: "SFNClient"
    applications: Any  # EMR Serverless; called only where the stack has an application
    say: Callable[[str], None]
    _stopped: set[str] = field(default_factory=set)

    def drain(self, *, stop: bool) -> None:
        """Pause all stages, wait for what runs (or stop it), stop the EMR application."""
        for stage in self.settings.stages:
            self.pause(stage)
        self._wait(self.activity, stop=stop)
        self._stop_application()

    def undo(self) -> None:
        """Resume all stages.

        An application of EMR Serverless starts by itself with its first job.
        """
        for stage in self.settings.stages:
            self.slots.resume(stage, self.clock.now())

    def pause(self, stage: Stage, *, wait: bool = False) -> None:
        """Let nothing start in the stage; `wait` until nothing runs in it."""
        self.slots.pause(stage, self.clock.now())
        self.say(f"paused: {stage.name}")
        if wait:
            self._wait(lambda: Activity(self._jobs([stage])), stop=False)

    def is_paused(self) -> bool:
        """Whether no stage lets a job start."""
        return all(self.slots.use(stage).paused_at for stage in self.settings.stages)

    def activity(self) -> Activity:
        pages = self.stepfunctions.get_paginator("list_executions").paginate(
            stateMachineArn=self.settings.state_machine_arn, statusFilter="RUNNING"
        )
        names = [each["name"] for page in pages for each in page["executions"]]
        tasks = sum(1 for _ in self.tasks.running())
        return Activity(self._jobs(self.settings.stages), names, tasks)

    def waiting(self) -> list[Waiting]:
        """The messages in the queues, by stage; of jobs that have begun too."""
        stages = []
        for stage in self.settings.stages:
            counts = self.counter.count(stage, begun=0)
            stages.append(Waiting(stage.name, counts.queued, counts.dead_letters))
        return stages

    def application_state(self) -> str | None:
        """Of the EMR Serverless application, such as STARTED; None without one."""
        engine = self.settings.emr_serverless
        if engine is None:
            return None
        try:
            answer = self.applications.get_application(applicationId=engine.application_id)
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
            return None
        return str(answer["application"]["state"])

    def _jobs(self, stages: Sequence[Stage]) -> int:
        rows = self.jobs.unfinished([stage.name for stage in stages])
        # The index of rows is a little late; the slots know of a claim at once.
        running = sum(self.slots.use(stage).running for stage in stages)
        return max(running, sum(_goes_on(row) for row in rows))

    def _wait(self, look: Callable[[], Activity], *, stop: bool) -> None:
        last = ""
        while going := look():
            if stop:
                self._stop(going)
            text = f"{'stopping' if stop else 'waiting for'} {going}"
            if text != last:
                last = text
                self.say(text)
            self.clock.sleep(_LOOK_S)

    def _stop(self, going: Activity) -> None:
        """Stop each execution once: its task ends, and the sweeper settles it as interrupted."""
        for name in going.executions:
            if name not in self._stopped:
                self._stopped.add(name)
                self.stepfunctions.stop_execution(
                    executionArn=self.executions.arn(name), cause=_REASON
                )

    def _stop_application(self) -> None:
        state = self.application_state()
        if state is None or self.settings.emr_serverless is None:
            return
        id_ = self.settings.emr_serverless.application_id
        while state not in ("STOPPED", "CREATED", "TERMINATED"):
            if state == "STARTED":
                self.say(f"stopping the EMR Serverless application {id_}")
                self.applications.stop_application(applicationId=id_)
            self.clock.sleep(_LOOK_S)
            state = self.application_state()


def _goes_on(row: Lease) -> bool:
    """Whether the row needs the stack's functions.

    A deletion that is owed waits for its message to come, and delays nothing.
    """
    return row.state is State.RUNNING or bool(set(row.owed) - {Owed.DELETE})
