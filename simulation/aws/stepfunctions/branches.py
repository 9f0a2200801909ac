"""An execution's way from state to state.

The machine itself and each branch of its Parallel states is a `Branch`.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from simulation.aws.stepfunctions.asl.errors import ExecutionError, StateError
from simulation.aws.stepfunctions.asl.machine import (
    Choice,
    Fail,
    Parallel,
    Pass,
    State,
    States,
    Task,
    Wait,
)
from simulation.aws.stepfunctions.asl.payload import sized
from simulation.aws.stepfunctions.tries import Tries

if TYPE_CHECKING:
    from simulation.aws.platform.timeline import Cancellable
    from simulation.aws.stepfunctions.interpreter import RunningExecution


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
        self._state: State | None = None
        self._pending: Cancellable | None = None

    def start(self, data: Any) -> None:
        self._go(self._states.start_at, data)

    def cancel(self) -> None:
        """End the branch and all that runs for it."""
        state, pending = self._state, self._pending
        self._state = self._pending = None
        if pending is not None:
            pending.cancel()
        # AWS was seen to stop an execution in a Wait state without WaitStateAborted.
        aborted = Task | Parallel if self is self.run.top else Task | Parallel | Wait
        if isinstance(state, aborted):
            self.run.history.write_if_room(f"{state.type}StateAborted", state.name)

    def guarded(self, action: Callable[[], None]) -> None:
        """An error that fails the execution passes all states around it; none catches it."""
        try:
            action()
        except ExecutionError as failure:
            self.fail(failure)

    def leave(self, state: State, target: str | None, output: Any) -> None:
        self.run.history.write(f"{state.type}StateExited", state.name)
        self._state = self._pending = None
        if target is None:
            self._succeeded(output)
        else:
            self._go(target, output)

    def fail(self, failure: StateError) -> None:
        state = self._state
        self._state = self._pending = None
        if isinstance(state, Task) and self is not self.run.top:
            self.run.history.write_if_room(f"{state.type}StateAborted", state.name)
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
        self._state = state
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
        self._around.run.history.write_if_room("ParallelStateFailed", self._state.name)
        self._around.catch(self._state, self._data, failure)
