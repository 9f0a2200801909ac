"""Step Functions' side of the simulation: executions run the definition of their machine, in virtual time.

An integration is what a task's resource does. It is called with the parameters (not to be changed) and a callback for the result, which may be called at once
or later, and is ignored after `cancel`.

Each entry into a state is an event of the timeline, `transition_s` after the last state's end; so nothing of an execution happens inside of the call that
started it, or of the one that answered for a task.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.fakes.stepfunctions import Execution, FakeStepFunctions
from tests.simulation.asl.errors import ExecutionError, StateError, UnsupportedError
from tests.simulation.asl.loading import load
from tests.simulation.asl.machine import Catcher, Choice, Fail, Machine, Parallel, State, States, Task, Wait
from tests.simulation.timeline import Cancellable, Timeline

MAX_EVENTS = 25_000
"""Of an execution's history. https://docs.aws.amazon.com/step-functions/latest/dg/bp-history-limit.html"""

MAX_BYTES = 262_144
"""Of a state's or task's input or output. https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html"""


class Done(NamedTuple):
    output: Any


class Failed(NamedTuple):
    error: str
    cause: str


Result = Done | Failed
Integration = Callable[[dict[str, Any], Callable[[Result], None]], Cancellable]
Observer = Callable[[Execution, str, str], None]
"""Hears of each event of each history: its execution, its type as GetExecutionHistory names it, and the name of its state."""


class StatesEngine:
    """`tests.fakes.stepfunctions.Engine`.

    Attributes:
        transition_s: Drawn for each transition: seconds from the end of one state to the entry into the next.
        timeout_stops_sync: Whether a state's own TimeoutSeconds stops its `.sync` task. AWS does not say; asked at each timeout.
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

        Raises:
            UnsupportedError: a machine's definition has something that is not interpreted.
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
    """One execution."""

    def __init__(self, engine: StatesEngine, execution: Execution, machine: Machine) -> None:
        self.engine = engine
        self.execution = execution
        self.events = 0
        self._top = Branch(self, machine.top, self._succeeded, self._failed)

    def start(self) -> None:
        self.record("ExecutionStarted")
        self._top.start(json.loads(self.execution.input))

    def stop(self) -> None:
        """The execution has been closed from outside."""
        self._top.cancel()
        self.record("ExecutionAborted", last=True)

    def record(self, event: str, state: str = "", *, last: bool = False) -> None:
        """Write an event into the history.

        Raises:
            ExecutionError: the history is full. "When an execution reaches 24,999 events, it waits for the next event to happen": only an end may.
        """
        if self.events >= MAX_EVENTS - 1 and not last:
            raise ExecutionError(
                "States.Runtime", f"The execution reached the maximum number of history events ({MAX_EVENTS})."
            )
        self.events += 1
        for observer in self.engine.observers:
            observer(self.execution, event, state)

    def _succeeded(self, output: Any) -> None:
        self.record("ExecutionSucceeded", last=True)
        self._close("SUCCEEDED", output=json.dumps(output))

    def _failed(self, failure: StateError) -> None:
        self._top.cancel()
        self.record("ExecutionFailed", last=True)
        self._close("FAILED", error=failure.error, cause=failure.cause)

    def _close(self, status: str, **how: str) -> None:
        del self.engine.runs[self.execution.arn]
        self.engine.stepfunctions.close(self.execution, status, **how)

    def fail(self, failure: ExecutionError) -> None:
        """Whatever states there are around: the execution fails."""
        self._failed(failure)


class Branch:
    """Goes from state to state: the machine itself, or a branch of a Parallel state."""

    def __init__(
        self, run: Run, states: States, succeeded: Callable[[Any], None], failed: Callable[[StateError], None]
    ) -> None:
        self.run = run
        self._states = states
        self._succeeded = succeeded
        self._failed = failed
        self._state: State | None = None
        self._pending: Cancellable | None = None

    def start(self, data: Any) -> None:
        self._go(self._states.start_at, data)

    def cancel(self) -> None:
        """Stop here, with all that runs for it."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        if self._state is not None:
            self._abort_event(self._state)
            self._state = None

    def _abort_event(self, state: State) -> None:
        if self.run.events < MAX_EVENTS - 1:
            self.run.record(f"{state.type}StateAborted", state.name)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Go on later."""
        self._pending = self.run.engine.timeline.after(seconds, lambda: self.guarded(action))

    def guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except ExecutionError as failure:
            self.run.fail(failure)
        except StateError as failure:
            self.fail(failure)

    def fail(self, failure: StateError) -> None:
        self._state = self._pending = None
        self._failed(failure)

    def leave(self, state: State, target: str | None, data: Any) -> None:
        """The state has done its work."""
        self.run.record(f"{state.type}StateExited", state.name)
        self._state = self._pending = None
        if target is None:
            self._succeeded(data)
        else:
            self._go(target, data)

    def catch(self, state: Task | Parallel, data: Any, failure: StateError) -> None:
        """To the state of the first catcher that matches, or out of the branch."""
        for catcher in state.catchers:
            if catcher.matches(failure.error):
                self.leave(state, catcher.next, _caught(catcher, data, failure))
                return
        self.fail(failure)

    def _go(self, target: str, data: Any) -> None:
        self.after(self.run.engine.transition_s(), lambda: self._enter(self._states.states[target], data))

    def _enter(self, state: State, data: Any) -> None:
        self.run.record(f"{state.type}StateEntered", state.name)
        self._state, self._pending = state, None
        match state:
            case Task():
                self._pending = tries = Tries(self, state, data)
                tries.begin()
            case Wait():
                self.after(state.seconds(data), lambda: self.leave(state, state.next, data))
            case Choice():
                self.leave(state, state.decide(data), data)
            case Parallel():
                self._pending = branches = Branches(self, state, data)
                branches.begin()
            case Fail():
                self.fail(StateError(state.error, state.cause(data)))
            case _:
                self.leave(state, None, data)


class Branches:
    """A Parallel state at work: it succeeds when all branches did, and fails with the first that fails, which stops the others.

    https://docs.aws.amazon.com/step-functions/latest/dg/state-parallel.html
    """

    def __init__(self, around: Branch, state: Parallel, data: Any) -> None:
        self._around = around
        self._state = state
        self._data = data
        self._outputs: list[Any] = [None] * len(state.branches)
        self._running = {
            index: Branch(around.run, states, lambda output, index=index: self._succeeded(index, output), self._failed)
            for index, states in enumerate(state.branches)
        }

    def begin(self) -> None:
        self._around.run.record("ParallelStateStarted", self._state.name)
        for branch in self._running.values():
            branch.start(self._data)

    def cancel(self) -> None:
        for branch in self._running.values():
            branch.cancel()
        self._running = {}

    def _succeeded(self, index: int, output: Any) -> None:
        del self._running[index]
        self._outputs[index] = output
        if not self._running:
            self._around.guarded(self._all_succeeded)

    def _all_succeeded(self) -> None:
        self._around.run.record("ParallelStateSucceeded", self._state.name)
        self._around.leave(self._state, self._state.next, _sized(self._state.select(self._outputs), self._state))

    def _failed(self, failure: StateError) -> None:
        self.cancel()
        self._around.guarded(lambda: self._all_failed(failure))

    def _all_failed(self, failure: StateError) -> None:
        self._around.run.record("ParallelStateFailed", self._state.name)
        self._around.catch(self._state, self._data, failure)


class Tries:
    """A Task state at work: tries its resource until it succeeds, or until its retriers have had enough."""

    def __init__(self, around: Branch, state: Task, data: Any) -> None:
        self._around = around
        self._engine = around.run.engine
        self._state = state
        self._data = data
        self._retries = dict.fromkeys(state.retriers, 0)
        self._pending: Cancellable | None = None

    def begin(self) -> None:
        record, state = self._around.run.record, self._state
        parameters = _sized(state.parameters(self._data), state)
        timeout_s = state.timeout_s(self._data)
        record("TaskScheduled", state.name)
        record("TaskStarted", state.name)
        self._pending = Try(self._engine, state, timeout_s, self._ended)
        self._pending.begin(parameters)

    def cancel(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    def _ended(self, result: Result) -> None:
        self._pending = None
        self._around.guarded(lambda: self._succeeded(result) if isinstance(result, Done) else self._failed(result))

    def _succeeded(self, result: Done) -> None:
        state = self._state
        if state.is_sync:
            self._around.run.record("TaskSubmitted", state.name)
        self._around.run.record("TaskSucceeded", state.name)
        output = state.output(state.put(self._data, state.select(_crossed(result.output, state))))
        self._around.leave(state, state.next, _sized(output, state))

    def _failed(self, failed: Failed) -> None:
        self._around.run.record("TaskTimedOut" if failed.error == "States.Timeout" else "TaskFailed", self._state.name)
        for retrier, retries in self._retries.items():
            if retrier.matches(failed.error):
                if retries < retrier.max_attempts:
                    self._retries[retrier] += 1
                    self._pause(self._engine.rng.uniform(0, retrier.longest_pause(retries)))
                    return
                break
        self._around.catch(self._state, self._data, StateError(failed.error, failed.cause))

    def _pause(self, seconds: float) -> None:
        self._pending = self._engine.timeline.after(seconds, lambda: self._around.guarded(self.begin))


class Try:
    """One call of the resource. The first of its result, its timeout and its cancelling counts.

    The timeout holds for each try: it is a field of TaskScheduled, which every retry writes anew.
    """

    def __init__(self, engine: StatesEngine, state: Task, timeout_s: float, ended: Callable[[Result], None]) -> None:
        self._engine = engine
        self._state = state
        self._ended: Callable[[Result], None] | None = ended
        self._deadline = engine.timeline.after(timeout_s, self._timed_out)
        self._call: Cancellable | None = None

    def begin(self, parameters: dict[str, Any]) -> None:
        self._call = self._engine.integrations[self._state.resource](parameters, self._done)

    def cancel(self) -> None:
        if self._ended is not None:
            self._ended = None
            self._deadline.cancel()
            if self._call is not None:
                self._call.cancel()

    def _done(self, result: Result) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            self._deadline.cancel()
            ended(result)

    def _timed_out(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            if self._call is not None and self._state.is_sync and self._engine.timeout_stops_sync():
                self._call.cancel()
            ended(Failed("States.Timeout", ""))


def _caught(catcher: Catcher, data: Any, failure: StateError) -> Any:
    return catcher.put(data, {"Error": failure.error, "Cause": failure.cause})


def _crossed(output: Any, state: Task) -> Any:
    """As JSON, which is how it comes back from the service."""
    return json.loads(_text(output, state))


def _sized(data: Any, state: State) -> Any:
    _text(data, state)
    return data


def _text(data: Any, state: State) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if len(text) * 4 > MAX_BYTES and len(text.encode()) > MAX_BYTES:
        raise ExecutionError(
            "States.DataLimitExceeded",
            f"The state/task '{state.name}' returned a result with a size exceeding the maximum number of bytes service limit.",
        )
    return text
