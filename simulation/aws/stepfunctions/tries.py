"""A Task state at work."""

from typing import TYPE_CHECKING, Any

from simulation.aws.stepfunctions.asl.errors import StateError
from simulation.aws.stepfunctions.asl.machine import Task
from simulation.aws.stepfunctions.asl.payload import crossed, sized
from simulation.aws.stepfunctions.integration import Done, Failed, Result, Submitted, Tell

if TYPE_CHECKING:
    from simulation.aws.platform.timeline import Cancellable
    from simulation.aws.stepfunctions.branches import Branch
    from simulation.aws.stepfunctions.interpreter import Interpreter

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
