"""Step Functions' side of the simulation: executions run the definition of their machine, in virtual time.

Each entry into a state is an event of the timeline, `transition_s` after the last state's end. So nothing of an execution happens inside of the call that
started it, nor of the one that answered for a task.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.stepfunctions import Execution, FakeStepFunctions
from tests.simulation.asl.errors import StateError, UnsupportedError
from tests.simulation.asl.history import History, Observer
from tests.simulation.asl.loading import load
from tests.simulation.asl.machine import Machine
from tests.simulation.branches import Branch
from tests.simulation.integration import Done, Failed, Integration, Result, Submitted
from tests.simulation.timeline import Timeline

__all__ = ["Done", "Failed", "Integration", "Observer", "Result", "Run", "StatesEngine", "Submitted"]


class StatesEngine:
    """`tests.fakes.stepfunctions.Engine`.

    Attributes:
        transition_s: Asked at each transition: seconds from the end of one state to the entry into the next.
        timeout_stops_sync: Asked at each timeout of a `.sync` task: whether Step Functions stops the task. AWS does not say.
        observers: Who hears of the events of the histories.
        runs: What runs, by the ARN of its execution.
    """

    def __init__(
        self,
        timeline: Timeline,
        stepfunctions: FakeStepFunctions,
        integrations: Mapping[str, Integration],
        rng: random.Random,
    ) -> None:
        """Machines that exist already are loaded now, others when they are first started.

        Args:
            timeline: Where everything happens.
            stepfunctions: Whose executions run here.
            integrations: By resource, such as `arn:aws:states:::lambda:invoke`.
            rng: For the jitter of retries.

        Raises:
            UnsupportedError: A machine's definition has something that is not interpreted.
        """
        self.timeline = timeline
        self.stepfunctions = stepfunctions
        self.integrations = integrations
        self.rng = rng
        self.transition_s: Callable[[], float] = lambda: 0.02
        self.timeout_stops_sync: Callable[[], bool] = lambda: False
        self.observers: list[Observer] = []
        self.runs: dict[str, Run] = {}
        for machine in stepfunctions.machines.values():
            self._load(machine.definition)

    def started(self, execution: Execution) -> None:
        machine = self._load(self.stepfunctions.machines[execution.machine_arn].definition)
        run = self.runs[execution.arn] = Run(self, execution, machine)
        run.start()

    def stopped(self, execution: Execution) -> None:
        self.runs.pop(execution.arn).stop()

    def _load(self, definition: str) -> Machine:
        machine = load(definition)
        if unknown := machine.resources - self.integrations.keys():
            raise UnsupportedError("the machine", f"no integration for {sorted(unknown)}")
        return machine


class Run:
    """One execution that runs."""

    def __init__(self, engine: StatesEngine, execution: Execution, machine: Machine) -> None:
        self.engine = engine
        self.history = History(execution, engine.observers)
        self._execution = execution
        self._top = Branch(self, machine.top, self._succeeded, self.fail)

    def start(self) -> None:
        self.history.write("ExecutionStarted")
        self._top.start(json.loads(self._execution.input))

    def stop(self) -> None:
        """The execution has been closed from outside."""
        self._top.cancel()
        self.history.close("ExecutionAborted")

    def fail(self, failure: StateError) -> None:
        """The execution fails, whatever its states are about."""
        self._top.cancel()
        self.history.close("ExecutionFailed")
        self._close("FAILED", error=failure.error, cause=failure.cause or None)

    def _succeeded(self, output: Any) -> None:
        self.history.close("ExecutionSucceeded")
        self._close("SUCCEEDED", output=json.dumps(output))

    def _close(self, status: str, **how: str | None) -> None:
        del self.engine.runs[self._execution.arn]
        self.engine.stepfunctions.close(self._execution, status, **how)
