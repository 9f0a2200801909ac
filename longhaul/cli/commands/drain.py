"""`longhaul drain`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.checks.finding import Level
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target


@on_target
def drain(
    target: "Target",
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
    from longhaul.cli.checks.teardown import queues
    from longhaul.cli.insight.storage import stored

    out = Output()
    if stop and undo:
        raise CommandError("give --stop or --undo, not both", ExitStatus.USAGE)
    out.say_where(target)
    drainer = target.drainer(out.note)
    try:
        if undo:
            drainer.undo()
            out.line("awake: jobs start again")
            return
        drainer.drain(stop=stop)
    except KeyboardInterrupt:
        out.note(
            "interrupted: `longhaul drain` goes on, `longhaul drain --undo` lets jobs start again",
            style="yellow",
        )
        raise
    out.line("drained: nothing runs, and nothing starts")
    for each in queues(drainer):
        if each.level is not Level.OK:
            out.line(each.what)
    out.line("`longhaul destroy` takes the stack down; what stays then:")
    for remnant in stored(target.settings, target.client("dynamodb"), target.client("s3")):
        out.line(f"  {remnant}")
    out.line("`longhaul drain --undo` goes back")
