"""Joins what is typed to what is done: a function of `commands` to that of its name in `work`.

Help, completion and wrong options need the first alone. The second loads the clients of AWS and all
models, so it is imported when the command runs.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, get_type_hints

from longhaul.cli.interrupts import ended_by_interrupt
from longhaul.cli.terminal.options import Profile, Region, Stack

WHERE = {"profile": Profile, "region": Region, "stack": Stack}


def work_of(command: Callable[..., None]) -> Callable[..., None]:
    """The function that does what the command declares; it has the parameters of its options."""
    module = command.__module__.rpartition(".")[2]
    with ended_by_interrupt():
        work: Callable[..., None] = getattr(
            import_module(f"longhaul.cli.work.{module}"), command.__name__
        )
    return work


def runs(command: Callable[..., None]) -> Callable[..., None]:
    """Let the declaration of a command run its work."""

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - whatever options the command has
        work_of(command)(**given)

    return run


def on_target(command: Callable[..., None]) -> Callable[..., None]:
    """Let the declaration run its work on a target, the first argument of the work.

    The three options that choose the target are the last ones of the help.
    """
    hints = get_type_hints(command, include_extras=True)

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - whatever options the command has
        from longhaul.cli.target import connect  # noqa: PLC0415 - loads boto3

        work = work_of(command)
        work(connect(**{name: given.pop(name) for name in WHERE}), **given)

    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name])
        for each in inspect.signature(command).parameters.values()
    ]
    for name, hint in WHERE.items():
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        )
    run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return run
