"""Executions run the definition of their state machine, in virtual time.

Each entry into a state is an event of the timeline, `transition_s` after the end of the last state.
So nothing of an execution happens inside the call that starts it, or that returns a task's result.

The machine itself and each branch of its Parallel states is a `Branch`: an execution's way from
state to state. A Task state's resource is an `Integration`.
"""

import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from simulation.aws.platform.timeline import Cancellable, Timeline
from simulation.aws.stepfunctions.asl.limits import (
    ExecutionError,
    History,
    Observer,
    StateError,
    crossed,
    sized,
)
from simulation.aws.stepfunctions.asl.machine import (
    Choice,
    Fail,
    Machine,
    Parallel,
    Pass,
    State,
    States,
    Task,
    Wait,
    load,
)
from simulation.aws.stepfunctions.client import Execution, FakeStepFunctions


class Done(NamedTuple):
    """`output` is JSON."""

    output: Any


class Failed(NamedTuple):
    """`error` is the name that Retry and Catch match."""

    error: str
    cause: str


class Submitted(NamedTuple):
    """The service has accepted the job of a `.sync` task; only the history shows it."""


Result = Done | Failed
Tell = Callable[[Result | Submitted], None]

Integration = Callable[[dict[str, Any], Tell], Cancellable]
"""Called with the state's parameters, which it must not change, and a callback for its one result.

It may call back at once or later. The interpreter cancels the returned value when it no longer
needs the result; a later callback has no effect.
"""


TIMEOUT = "States.Timeout"


class Tries:
    """Calls the resource until it succeeds or no retrier applies any more.

    https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html#error-handling-retrying-after-an-error
    """

    def __init__(self, around: "Branch", state: Task, data: Any) -> None:
        self._around = around
        self._engine = around.run.engine
        self._write = around.run.history.write
        self._state = state
        self._data = data
        self._retries = [0] * len(state.retry)
        self._pending: Cancellable | None = None

    def begin(self) -> None:
        state = self._state
        parameters = sized(state.parameters(self._data, self._around.run.name), state.name)
        timeout_s = state.timeout_s(self._data)
        self._write("TaskScheduled", state.name)
        self._write("TaskStarted", state.name)
        self._pending = call = Try(self._engine, state, timeout_s, self._told)
        call.begin(parameters)

    def cancel(self) -> None:
        if self._pending is not None:
            self._pending.cancel()

    def _told(self, what: Result | Submitted) -> None:
        self._around.guarded(lambda: self._hear(what))

    def _hear(self, what: Result | Submitted) -> None:
        match what:
            case Submitted():
                self._write("TaskSubmitted", self._state.name)
            case Done():
                self._succeeded(what)
            case Failed():
                self._failed(what)

    def _succeeded(self, done: Done) -> None:
        state = self._state
        answered = crossed(done.output, state.name)
        self._write("TaskSucceeded", state.name)
        output = state.output_path(state.result_path(self._data, state.selected(answered)))
        self._around.leave(state, state.next, sized(output, state.name))

    def _failed(self, failed: Failed) -> None:
        self._write("TaskTimedOut" if failed.error == TIMEOUT else "TaskFailed", self._state.name)
        failure = StateError(failed.error, failed.cause)
        pause_s = self._longest_pause(failure)
        if pause_s is None:
            self._around.catch(self._state, self._data, failure)
        else:
            self._pending = self._engine.timeline.after(
                self._engine.rng.uniform(0, pause_s), lambda: self._around.guarded(self.begin)
            )

    def _longest_pause(self, failure: StateError) -> float | None:
        """The longest pause before the next try; None when there is none.

        Each retrier counts its own tries, and the first that matches decides.
        """
        for index, retrier in enumerate(self._state.retry):
            if retrier.matches(failure):
                retries = self._retries[index]
                self._retries[index] += 1
                return retrier.longest_pause(retries) if retries < retrier.max_attempts else None
        return None


class Try:
    """One try. The first of its result, its timeout and its cancellation counts.

    Each try has the whole timeout: it is a field of TaskScheduled, which every try writes, and runs
    from TaskStarted.
    """

    def __init__(self, engine: "Interpreter", state: Task, timeout_s: float, tell: Tell) -> None:
        self._engine = engine
        self._state = state
        self._tell = tell
        self._open = True
        self._deadline = engine.timeline.after(timeout_s, self._timed_out)
        self._running: Cancellable | None = None

    def begin(self, parameters: dict[str, Any]) -> None:
        self._running = self._engine.integrations[self._state.resource](parameters, self._told)

    def cancel(self) -> None:
        if self._open:
            self._close()
            if self._running is not None:
                self._running.cancel()

    def _told(self, what: Result | Submitted) -> None:
        if self._open:
            if not isinstance(what, Submitted):
                self._close()
            self._tell(what)

    def _timed_out(self) -> None:
        self._close()
        if self._state.is_sync and self._running is not None and self._engine.timeout_stops_sync():
            self._running.cancel()
        self._tell(Failed(TIMEOUT, ""))

    def _close(self) -> None:
        self._open = False
        self._deadline.cancel()


class Branch:
    """It is in one state at a time, or between two."""

    def __init__(
        self,
        run: "RunningExecution",
        states: States,
        succeeded: Callable[[Any], None],
        failed: Callable[[StateError], None],
    ) -> None:
        self.run = run
        self._states = states
        self._succeeded = succeeded
        self._failed = failed
        self._pending: Cancellable | None = None

    def start(self, data: Any) -> None:
        self._go(self._states.start_at, data)

    def cancel(self) -> None:
        """End the branch and all that runs for it."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()

    def guarded(self, action: Callable[[], None]) -> None:
        """An error that fails the execution passes all states around it; none catches it."""
        try:
            action()
        except ExecutionError as failure:
            self.fail(failure)

    def leave(self, state: State, target: str | None, output: Any) -> None:
        self.run.history.write(f"{state.type}StateExited", state.name)
        self._pending = None
        if target is None:
            self._succeeded(output)
        else:
            self._go(target, output)

    def fail(self, failure: StateError) -> None:
        self._pending = None
        self._failed(failure)

    def catch(self, state: Task | Parallel, data: Any, failure: StateError) -> None:
        """Go to the state of the first catcher that matches, or fail the branch.

        OutputPath does not apply to a caught error.
        """
        for catcher in state.catch:
            if catcher.matches(failure):
                output = catcher.result_path(data, {"Error": failure.error, "Cause": failure.cause})
                self.leave(state, catcher.next, sized(output, state.name))
                return
        self.fail(failure)

    def _go(self, target: str, data: Any) -> None:
        engine, state = self.run.engine, self._states.states[target]
        self._pending = engine.timeline.after(
            engine.transition_s(), lambda: self.guarded(lambda: self._enter(state, data))
        )

    def _enter(self, state: State, data: Any) -> None:
        self.run.history.write(f"{state.type}StateEntered", state.name)
        match state:
            case Task():
                self._pending = tries = Tries(self, state, data)
                tries.begin()
            case Wait():
                self._pending = self.run.engine.timeline.after(
                    state.wait_s(data),
                    lambda: self.guarded(lambda: self.leave(state, state.next, data)),
                )
            case Pass():
                output = sized(state.result_path(data, state.result), state.name)
                self.leave(state, state.next, output)
            case Choice():
                self.leave(state, state.decide(data), data)
            case Parallel():
                self._pending = branches = Branches(self, state, data)
                branches.begin()
            case Fail():
                self.fail(StateError(state.error, state.cause_of(data)))
            case _:
                self.leave(state, None, data)


class Branches:
    """A Parallel state at work.

    It succeeds when all its branches have. The first that fails stops the others, and it fails.

    https://docs.aws.amazon.com/step-functions/latest/dg/state-parallel.html
    """

    def __init__(self, around: Branch, state: Parallel, data: Any) -> None:
        self._around = around
        self._state = state
        self._data = data
        self._outputs: list[Any] = [None] * len(state.branches)
        self._running = {
            index: Branch(
                around.run,
                states,
                partial(self._succeeded, index),
                self._failed,
            )
            for index, states in enumerate(state.branches)
        }

    def begin(self) -> None:
        self._around.run.history.write("ParallelStateStarted", self._state.name)
        for branch in self._running.values():
            branch.start(self._data)

    def cancel(self) -> None:
        for branch in self._running.values():
            branch.cancel()
        self._running = {}

    def _succeeded(self, index: int, output: Any) -> None:
        self._outputs[index] = output
        del self._running[index]
        if not self._running:
            state = self._state
            self._around.run.history.write("ParallelStateSucceeded", state.name)
            output = state.selected(self._outputs)
            self._around.leave(state, state.next, sized(output, state.name))

    def _failed(self, failure: StateError) -> None:
        self.cancel()
        self._around.catch(self._state, self._data, failure)


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
        machine = load(self.stepfunctions.machines[execution.machine_arn])
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
