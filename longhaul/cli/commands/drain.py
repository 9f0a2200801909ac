"""`longhaul drain`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target


@on_target
def drain(
    *,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="Stop what runs, instead of waiting for it."),
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Resume all stages: jobs start.")] = False,
) -> None:
    """Bring the stack to rest before it is taken down: nothing starts, and nothing runs any more.

    It pauses all stages, waits for the jobs that run, and stops the application of EMR Serverless.
    Messages stay in their queues. It can be repeated, and after Ctrl-C the stages stay paused.

    With --stop each running job is interrupted, which does not count as a failure: its message
    waits for the next attempt.

    Example: longhaul drain

    Example: longhaul drain --undo
    """
