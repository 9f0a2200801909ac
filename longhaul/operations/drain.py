"""Bring a stack to rest, so that it can be taken down, and wake it again.

Each step looks at what is there before it acts, so an interrupted drain is simply run again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import ClientError

from longhaul.core.lease import Lease, Owed, State
from longhaul.core.settings import Stage
from longhaul.operations.errors import is_gone
from longhaul.operations.stack import Stack
from longhaul.operations.stage_counts import StageCounts, counts_of

AT_REST: Final = (None, "STOPPED", "CREATED", "TERMINATED")
"""States of an application of EMR Serverless that can be deleted; None where there is none."""
_LOOK_S: Final = 2.0
_REASON: Final = "longhaul stage drain --stop"


@dataclass(frozen=True)
class Activity:
    """What goes on. `jobs` are those that run, or have ended and still owe more than a deletion."""

    jobs: int
    executions: Sequence[str] = ()
    tasks: int = 0

    def __str__(self) -> str:
        """Empty where nothing goes on."""
        parts = ((self.jobs, "job"), (len(self.executions), "execution"), (self.tasks, "task"))
        return ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in parts if n)


@dataclass(frozen=True)
class Drainer:
    stack: Stack
    say: Callable[[str], None] = lambda _: None
    """Gets each step."""

    def drain(self, *, stop: bool) -> None:
        """Pause all stages, wait for what runs (or stop it), stop the EMR application."""
        for stage in self.stack.settings.stages:
            self.pause(stage)
        self._wait(self.activity, stop=stop)
        self._stop_application()

    def undo(self) -> None:
        """Resume all stages.

        An application of EMR Serverless starts by itself with its first job.
        """
        for stage in self.stack.settings.stages:
            self.stack.parts.slots.resume(stage, self.stack.parts.clock.now())

    def pause(self, stage: Stage, *, wait: bool = False) -> None:
        """Let nothing start in the stage; `wait` until nothing runs in it."""
        self.stack.parts.slots.pause(stage, self.stack.parts.clock.now())
        self.say(f"paused: {stage.name}")
        if wait:
            self._wait(lambda: Activity(self._jobs([stage])), stop=False)

    def is_paused(self) -> bool:
        """Whether no stage lets a job start."""
        use = self.stack.parts.slots.use
        return all(use(stage).paused_at for stage in self.stack.settings.stages)

    def activity(self) -> Activity:
        pages = (
            self.stack.client("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self.stack.settings.state_machine_arn, statusFilter="RUNNING")
        )
        names = [each["name"] for page in pages for each in page["executions"]]
        tasks = sum(1 for _ in self.stack.parts.tasks.running())
        return Activity(self._jobs(self.stack.settings.stages), names, tasks)

    def waiting(self) -> list[StageCounts]:
        """Of each stage; what is queued has also the messages of jobs that have begun."""
        return [counts_of(self.stack, stage, begun=0) for stage in self.stack.settings.stages]

    def application_state(self) -> str | None:
        """Of the EMR Serverless application, such as STARTED; None without one."""
        engine = self.stack.settings.emr_serverless
        if engine is None:
            return None
        applications = self.stack.client("emr-serverless")
        try:
            answer = applications.get_application(applicationId=engine.application_id)
        except ClientError as error:
            if not is_gone(error):
                raise
            return None
        return str(answer["application"]["state"])

    def _jobs(self, stages: Sequence[Stage]) -> int:
        rows = self.stack.jobs.unfinished([stage.name for stage in stages])
        # The index of rows is a little late; the slots know of a claim at once.
        running = sum(self.stack.parts.slots.use(stage).running for stage in stages)
        return max(running, sum(_goes_on(row) for row in rows))

    def _wait(self, look: Callable[[], Activity], *, stop: bool) -> None:
        last = ""
        while text := str(going := look()):
            if stop:
                self._stop(going.executions)
            if text != last:
                last = text
                self.say(f"{'stopping' if stop else 'waiting for'} {text}")
            self.stack.parts.clock.sleep(_LOOK_S)

    def _stop(self, executions: Sequence[str]) -> None:
        """Stop them, again until they are gone: the sweeper settles their tasks as interrupted."""
        for name in executions:
            arn = self.stack.parts.executions.arn(name)
            self.stack.client("stepfunctions").stop_execution(executionArn=arn, cause=_REASON)

    def _stop_application(self) -> None:
        engine = self.stack.settings.emr_serverless
        while engine and (state := self.application_state()) not in AT_REST:
            if state == "STARTED":
                self.say(f"stopping the EMR Serverless application {engine.application_id}")
                self.stack.client("emr-serverless").stop_application(
                    applicationId=engine.application_id
                )
            self.stack.parts.clock.sleep(_LOOK_S)


def _goes_on(row: Lease) -> bool:
    """Whether the row needs the stack's functions.

    A deletion that is owed waits for its message to come, and delays nothing.
    """
    return row.state is State.RUNNING or bool(set(row.owed) - {Owed.DELETE})
