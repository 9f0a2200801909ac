"""Bring a stack to rest, so that it can be taken down, and wake it again.

Each step looks at what is there before it acts, so an interrupted drain is simply run again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from console.operations.find import Jobs
from console.operations.mappings import Mappings
from console.operations.stage_counts import StageCounter
from longhaul.adapters.errors import code_of
from longhaul.domain.lease import Lease, Owed, State
from longhaul.ports import Clock, Executions, Tasks
from longhaul.settings import RuntimeSettings, Stage

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

_LOOK_S: Final = 2.0
_REASON: Final = "longhaul drain --stop"
# A dispatcher that was invoked before its mapping was off may still start a job. Its function ends
# after 75 s (`infra.stack`).
_DISPATCHER_S: Final = 75


@dataclass(frozen=True)
class Activity:
    """What goes on. `rows` are jobs that run, or have ended and still owe more than a deletion."""

    executions: Sequence[str]
    tasks: int
    rows: Sequence[Lease]

    def __bool__(self) -> bool:
        return bool(self.executions or self.tasks or self.rows)

    def __str__(self) -> str:
        parts = (
            (len(self.rows), "job"),
            (len(self.executions), "execution"),
            (self.tasks, "task"),
        )
        return ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in parts)


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
    mappings: Mappings
    executions: Executions
    tasks: Tasks
    stepfunctions: "SFNClient"
    applications: Any  # EMR Serverless; called only where the stack has an application
    say: Callable[[str], None]
    _stopped: set[str] = field(default_factory=set)

    def drain(self, *, stop: bool) -> None:
        """Switch the mappings off, wait for what runs (or stop it), stop the EMR application."""
        off_at = self._switch(self.settings.stages, on=False)
        self._wait(off_at, stop=stop)
        self._stop_application()

    def undo(self) -> None:
        """Switch the mappings of all stages on that are not retired.

        An application of EMR Serverless starts by itself with its first job.
        """
        self._switch([each for each in self.settings.stages if not each.retired], on=True)

    def is_off(self) -> bool:
        """Whether no mapping of any stage reads its queue."""
        return all(
            each.state == "Disabled"
            for stage in self.settings.stages
            for each in self.mappings.of(stage)
        )

    def activity(self) -> Activity:
        pages = self.stepfunctions.get_paginator("list_executions").paginate(
            stateMachineArn=self.settings.state_machine_arn, statusFilter="RUNNING"
        )
        names = [each["name"] for page in pages for each in page["executions"]]
        rows = self.jobs.unfinished([each.name for each in self.settings.stages])
        return Activity(
            names, sum(1 for _ in self.tasks.running()), [row for row in rows if _goes_on(row)]
        )

    def waiting(self) -> list[Waiting]:
        """The messages in the queues, by stage; of jobs that have begun too."""
        found = []
        for stage in self.settings.stages:
            counts = self.counter.count(stage, ())
            found.append(Waiting(stage.name, counts.queued, counts.dead_letters))
        return found

    def application_state(self) -> str | None:
        """Of the EMR Serverless application, such as STARTED; None without one."""
        engine = self.settings.emr_serverless
        if engine is None:
            return None
        try:
            found = self.applications.get_application(applicationId=engine.application_id)
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
            return None
        return str(found["application"]["state"])

    def _switch(self, stages: Iterable[Stage], *, on: bool) -> datetime:
        """Returns when all of them were first seen in their new state."""
        left, word = list(stages), "on" if on else "off"
        self.say(f"mappings {word}: {', '.join(each.name for each in left)}")
        while left := [each for each in left if not self.mappings.switch(each, on=on)]:
            self.clock.sleep(_LOOK_S)
        return self.clock.now()

    def _wait(self, off_at: datetime, *, stop: bool) -> None:
        said = ""
        while True:
            going = self.activity()
            if not going and not self._may_start(off_at):
                return
            if stop:
                self._stop(going)
            text = f"{'stopping' if stop else 'waiting for'} {going}" if going else _LAST_START
            if text != said:
                said = text
                self.say(text)
            self.clock.sleep(_LOOK_S)

    def _may_start(self, off_at: datetime) -> bool:
        """Whether a dispatcher may still hold a message that it received before."""
        held = any(self._in_flight(stage) for stage in self.settings.stages)
        waited_s = (self.clock.now() - off_at).total_seconds()
        return held and waited_s < _DISPATCHER_S

    def _in_flight(self, stage: Stage) -> int:
        name: Final = "ApproximateNumberOfMessagesNotVisible"
        answer = self.mappings.sqs.get_queue_attributes(
            QueueUrl=stage.queue_url, AttributeNames=[name]
        )
        return int(answer["Attributes"][name])

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


_LAST_START: Final = "waiting for dispatchers that hold a message: they may still start its job"


def _goes_on(row: Lease) -> bool:
    """Whether the row needs the stack's functions.

    A deletion that is owed waits for its message to be received, which happens only once the
    mapping is on again.
    """
    return row.state is State.RUNNING or bool(set(row.owed) - {Owed.DELETE})
