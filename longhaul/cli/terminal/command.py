"""What every command that speaks to a stack has: the options that choose it."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from longhaul.cli.interrupts import ended_by_interrupt
from longhaul.cli.terminal.options import Profile, Region, Stack

_WHERE = {"profile": Profile, "region": Region, "stack": Stack}


def on_target(command: Callable[..., None]) -> Callable[..., None]:
    """Run the command on a target, its first argument.

    The three options that choose the target are the last ones of the help.
    """

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - whatever options the command has
        with ended_by_interrupt():
            from longhaul.cli.target import connect  # noqa: PLC0415 - loads boto3

        command(connect(**{name: given.pop(name) for name in _WHERE}), **given)

    _, *own = inspect.signature(command).parameters.values()
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in _WHERE.items()
    ]
    run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return run
