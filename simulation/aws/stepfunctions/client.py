"""Step Functions' API in memory; an `Engine`, when set, runs the executions."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from simulation.aws.service import (
    ACCOUNT,
    REGION,
    Answer,
    Gate,
    Pages,
    RefusedError,
    Service,
    operation,
    page_of,
)

REMEMBERED = timedelta(days=90)
"""How long after its end an execution is known and its name is taken."""

_MAX_NAME = 80
_MAX_INPUT_BYTES = 262_144
# Whitespace, control characters, brackets, wildcards and these.
_FORBIDDEN = re.compile(r"""[\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]""")


@dataclass(eq=False)
class Execution:
    arn: str
    machine_arn: str
    name: str
    input: str
    started_at: datetime
    status: str = "RUNNING"
    stopped_at: datetime | None = None
    output: str | None = None
    error: str | None = None
    cause: str | None = None

    @property
    def is_running(self) -> bool:
        return self.status == "RUNNING"

    def described(self, *, whole: bool) -> Answer:
        shown: dict[str, Any] = {
            "executionArn": self.arn,
            "stateMachineArn": self.machine_arn,
            "name": self.name,
            "status": self.status,
            "startDate": self.started_at,
            "stopDate": self.stopped_at,
        }
        if whole:
            shown |= {
                "input": self.input,
                "output": self.output,
                "error": self.error,
                "cause": self.cause,
            }
        return {name: value for name, value in shown.items() if value is not None}


class Engine(Protocol):
    """Runs the executions, and ends them with `FakeStepFunctions.close`."""

    def started(self, execution: Execution) -> None: ...

    def stopped(self, execution: Execution) -> None:
        """StopExecution ended the execution: cancel what runs for it."""


class FakeStepFunctions(Service):
    service = "stepfunctions"
    paginators: ClassVar[Pages] = {"list_executions": (("nextToken", "nextToken"),)}

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate, now)
        self.machines: dict[str, str] = {}  # definition, by ARN
        self.executions: dict[str, Execution] = {}  # by ARN, oldest first
        self.engine: Engine | None = None
        self.status_changed: list[Callable[[Execution], None]] = []

    def close(
        self,
        execution: Execution,
        status: str,
        *,
        output: str | None = None,
        error: str | None = None,
        cause: str | None = None,
    ) -> None:
        """An execution ends; a second end changes nothing."""
        if not execution.is_running:
            return
        execution.status, execution.stopped_at = status, self._now()
        execution.output, execution.error, execution.cause = output, error, cause
        self._tell(execution)

    @operation
    def create_state_machine(self, *, name: str, definition: str, roleArn: str) -> Answer:
        del roleArn
        if not {"StartAt", "States"} <= json.loads(definition).keys():
            raise RefusedError(
                "InvalidDefinition",
                "Invalid State Machine Definition: 'MISSING_REQUIRED_FIELD' (StartAt, States)",
            )
        arn = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{name}"
        self.machines[arn] = definition
        return {"stateMachineArn": arn, "creationDate": self._now()}

    @operation
    def start_execution(self, *, stateMachineArn: str, name: str, input: str = "{}") -> Answer:  # noqa: A002 - botocore's
        self._check_machine(stateMachineArn)
        _check(name, input)
        arn = f"{stateMachineArn.replace(':stateMachine:', ':execution:')}:{name}"
        known = self._known(arn)
        if known is None:
            self.executions.pop(arn, None)
            known = Execution(arn, stateMachineArn, name, input, self._now())
            self.executions[arn] = known
            self._tell(known)
            if self.engine is not None:
                self.engine.started(known)
        elif not (known.is_running and known.input == input):
            raise RefusedError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        return {"executionArn": arn, "startDate": known.started_at}

    @operation
    def describe_execution(self, *, executionArn: str) -> Answer:
        return self._existing(executionArn).described(whole=True)

    @operation
    def stop_execution(
        self, *, executionArn: str, error: str | None = None, cause: str | None = None
    ) -> Answer:
        """Takes effect at once; an execution that has ended does not change."""
        execution = self._existing(executionArn)
        if execution.is_running:
            self.close(execution, "ABORTED", error=error, cause=cause)
            if self.engine is not None:
                self.engine.stopped(execution)
        return {"stopDate": execution.stopped_at}

    @operation
    def list_executions(
        self,
        *,
        stateMachineArn: str,
        statusFilter: str | None = None,
        maxResults: int = 0,
        nextToken: str | None = None,
    ) -> Answer:
        """Newest first, 100 on a page unless `maxResults` is set."""
        self._check_machine(stateMachineArn)
        found = [
            each.described(whole=False)
            for each in reversed(self.executions.values())
            if each.machine_arn == stateMachineArn
            and self._known(each.arn) is not None
            and statusFilter in (None, each.status)
        ]
        return page_of("executions", found, nextToken, maxResults or 100)

    def _check_machine(self, arn: str) -> None:
        if arn not in self.machines:
            raise RefusedError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")

    def _known(self, arn: str) -> Execution | None:
        found = self.executions.get(arn)
        if (
            found is not None
            and found.stopped_at is not None
            and self._now() - found.stopped_at >= REMEMBERED
        ):
            return None
        return found

    def _existing(self, arn: str) -> Execution:
        found = self._known(arn)
        if found is None:
            raise RefusedError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return found

    def _tell(self, execution: Execution) -> None:
        for listener in self.status_changed:
            listener(execution)


def _check(name: str, execution_input: str) -> None:
    if not name or _FORBIDDEN.search(name):
        raise RefusedError("InvalidName", f"Invalid Name: '{name}'")
    if len(name) > _MAX_NAME:
        raise RefusedError(
            "ValidationException",
            f"1 validation error detected: Value '{name}' at 'name' failed to satisfy constraint:"
            " Member must have length less than or equal to 80",
        )
    if len(execution_input.encode()) > _MAX_INPUT_BYTES:
        raise RefusedError(
            "ValidationException",
            "1 validation error detected: Value at 'input' failed to satisfy constraint:"
            " Member must have length less than or equal to 262144",
        )
    try:
        json.loads(execution_input)
    except json.JSONDecodeError as error:
        raise RefusedError(
            "InvalidExecutionInput", f"Invalid State Machine Execution Input: '{error}'"
        ) from None
