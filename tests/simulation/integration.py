"""What a task's resource does, as Step Functions sees it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.timeline import Cancellable


class Done(NamedTuple):
    """`output` is JSON."""

    output: Any


class Failed(NamedTuple):
    """`error` is the name that Retry and Catch look for."""

    error: str
    cause: str


class Submitted(NamedTuple):
    """Before the result of a `.sync` task: the service has taken the job. Only the history shows it."""


Result = Done | Failed
Tell = Callable[[Result | Submitted], None]

Integration = Callable[[dict[str, Any], Tell], Cancellable]
"""Called with the state's parameters, which it must not change, and a callback for the one result, to be called at once or later.

What it returns is cancelled when nobody wants the result any more. The callback may then still be called: it does nothing.
"""
