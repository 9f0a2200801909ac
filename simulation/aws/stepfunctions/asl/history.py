"""The events of an execution, as GetExecutionHistory lists them.

A Wait, a Choice or a Pass state writes 2, a task that succeeds 5 and 6 with `.sync`, each further
try of a task 3, a Parallel state 4 around what its branches write.
https://docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html
"""

from collections.abc import Callable, Sequence

from simulation.aws.stepfunctions.asl.errors import ExecutionError
from simulation.aws.stepfunctions.client import Execution

MAX_EVENTS = 25_000
"""https://docs.aws.amazon.com/step-functions/latest/dg/bp-history-limit.html"""


Observer = Callable[[Execution, str, str], None]
"""Called with an event's execution, its type in GetExecutionHistory, and its state or ""."""


class History:
    def __init__(self, execution: Execution, observers: Sequence[Observer]) -> None:
        self.events = 0
        self._execution = execution
        self._observers = observers

    def write(self, event: str, state: str = "") -> None:
        """Write an event.

        Raises:
            ExecutionError: "When an execution reaches 24,999 events, it waits for the next event to
                happen", and fails unless that is its success.
        """
        if self.events >= MAX_EVENTS - 1:
            raise ExecutionError(
                "States.Runtime",
                f"The execution reached the maximum number of history events ({MAX_EVENTS}).",
            )
        self.close(event, state)

    def write_if_room(self, event: str, state: str) -> None:
        """Write the event of an abort or a failure, which happens even without room for it."""
        if self.events < MAX_EVENTS - 1:
            self.close(event, state)

    def close(self, event: str, state: str = "") -> None:
        """Write the last event; there is always room for it."""
        self.events += 1
        for observer in self._observers:
            observer(self._execution, event, state)
