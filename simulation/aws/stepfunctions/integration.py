"""The resource of a Task state, as Step Functions sees it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from simulation.aws.platform.timeline import Cancellable


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
