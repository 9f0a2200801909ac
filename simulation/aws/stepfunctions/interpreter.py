"""Executions run the definition of their state machine, in virtual time.

Each entry into a state is an event of the timeline, `transition_s` after the end of the last state.
So nothing of an execution happens inside the call that starts it, or that returns a task's result.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from simulation.aws.platform.timeline import Timeline
from simulation.aws.stepfunctions.asl.limits import History, Observer, StateError
from simulation.aws.stepfunctions.asl.machine import Machine, load
from simulation.aws.stepfunctions.branches import Branch
from simulation.aws.stepfunctions.client import Execution, FakeStepFunctions
from simulation.aws.stepfunctions.integration import Integration


class Interpreter:
    """`simulation.aws.stepfunctions.client.Engine`.

    Attributes:
        observers: Called with each event of the histories.
        runs: The running executions, by ARN.
    """

    def __init__(
        self,
        timeline: Timeline,
        stepfunctions: FakeStepFunctions,
        integrations: Mapping[str, Integration],
        rng: random.Random,
        *,
        transition_s: Callable[[], float] = lambda: 0.02,
        timeout_stops_sync: Callable[[], bool] = lambda: False,
    ) -> None:
        """A machine is loaded at its first start.

        Args:
            timeline: Where the events happen.
            stepfunctions: The API whose executions it runs.
            integrations: By resource, such as `arn:aws:states:::lambda:invoke`.
            rng: For the jitter of retries.
            transition_s: Called at each transition: seconds from the end of one state to the entry
                into the next.
            timeout_stops_sync: Called at each timeout of a `.sync` task: whether Step Functions
                stops the task. AWS does not say.
        """
        self.timeline = timeline
        self.stepfunctions = stepfunctions
        self.integrations = integrations
        self.rng = rng
        self.transition_s = transition_s
        self.timeout_stops_sync = timeout_stops_sync
        self.observers: list[Observer] = []
        self.runs: dict[str, RunningExecution] = {}

    def started(self, execution: Execution) -> None:
        machine = load(self.stepfunctions.machines[execution.machine_arn].definition)
        run = self.runs[execution.arn] = RunningExecution(self, execution, machine)
        run.start()

    def stopped(self, execution: Execution) -> None:
        self.runs.pop(execution.arn).stop()


class RunningExecution:
    """A running execution."""

    def __init__(self, engine: Interpreter, execution: Execution, machine: Machine) -> None:
        self.engine = engine
        self.name = execution.name
        self.history = History(execution, engine.observers)
        self._execution = execution
        self.top = Branch(self, machine, self._succeeded, self.fail)

    def start(self) -> None:
        self.history.write("ExecutionStarted")
        self.top.start(json.loads(self._execution.input))

    def stop(self) -> None:
        """StopExecution has ended the execution."""
        self.top.cancel()
        self.history.close("ExecutionAborted")

    def fail(self, failure: StateError) -> None:
        """The execution fails, and its states end."""
        self.top.cancel()
        self.history.close("ExecutionFailed")
        self._close("FAILED", error=failure.error, cause=failure.cause or None)

    def _succeeded(self, output: Any) -> None:
        self.history.close("ExecutionSucceeded")
        self._close("SUCCEEDED", output=json.dumps(output))

    def _close(self, status: str, **how: str | None) -> None:
        del self.engine.runs[self._execution.arn]
        self.engine.stepfunctions.close(self._execution, status, **how)
