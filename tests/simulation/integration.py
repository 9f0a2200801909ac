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


Result = Done | Failed

Integration = Callable[[dict[str, Any], Callable[[Result], None]], Cancellable]
"""Called with the state's parameters, which it must not change, and a callback for the one result, to be called at once or later.

What it returns is cancelled when nobody wants the result any more. The callback may then still be called: it does nothing.
"""
