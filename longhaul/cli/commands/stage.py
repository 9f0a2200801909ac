"""`longhaul stage`: what a stage may start at once, and all stages brought to rest."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.checks.finding import Level
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target


app = typer.Typer(no_args_is_help=True, help="Stages: what starts in them, and how many at once.")

_Stage = Annotated[str, typer.Argument(metavar="STAGE", help="Name of the stage.")]


@app.command()
@on_target
def pause(
    target: "Target",
    *,
    stage: _Stage,
    drain: Annotated[
        bool, typer.Option("--drain", help="Return when none of its jobs runs any more.")
    ] = False,
) -> None:
    """Let no job of a stage start until `longhaul stage resume`. What runs goes on; messages wait.

    It holds from the next claim on, needs no deployment, and no deployment ends it
    (docs/operations.md#pause-a-stage-or-change-its-slots).

    Example: longhaul stage pause main --drain
    """
    from longhaul.operations.drain import Drainer

    out, which = Output(), target.stage(stage)
    out.say_where(target)
    Drainer(target, out.note).pause(which, wait=drain)
    _tell(out, target, stage)


@app.command()
@on_target
def resume(target: "Target", *, stage: _Stage) -> None:
    """Let the jobs of a paused stage start again.

    Those that wait are looked at within half an hour, and sooner the fewer they are.

    Example: longhaul stage resume main
    """
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.parts.slots.resume(which, target.parts.clock.now())
    _tell(out, target, stage)


@app.command()
@on_target
def slots(
    target: "Target",
    *,
    stage: _Stage,
    count: Annotated[
        int,
        typer.Argument(metavar="N", min=1, help="Jobs that may run at once."),
    ],
) -> None:
    """Let N jobs of a stage run at once, whatever is deployed. What runs is not stopped.

    It holds until the number that is deployed is given: then the deployment decides again.

    Example: longhaul stage slots main 3
    """
    from longhaul.core.settings import MAX_SLOTS

    if count > MAX_SLOTS:
        raise CommandError(f"a stage has at most {MAX_SLOTS:,} slots", ExitStatus.USAGE)
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.parts.slots.set_slots(which, count)
    _tell(out, target, stage)


@app.command()
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
    Messages stay in their queues. It can be repeated, and after Ctrl-C the stages stay paused. It
    prints what waits, and what stays after `longhaul destroy`.

    With --stop each running job is interrupted, which does not count as a failure: its message
    waits for the next attempt.

    Example: longhaul stage drain

    Example: longhaul stage drain --undo
    """
    from longhaul.cli.checks.teardown import queues
    from longhaul.operations.drain import Drainer

    out = Output()
    if stop and undo:
        raise CommandError("give --stop or --undo, not both", ExitStatus.USAGE)
    out.say_where(target)
    drainer = Drainer(target, out.note)
    try:
        if undo:
            drainer.undo()
            out.line("awake: jobs start again")
            return
        drainer.drain(stop=stop)
    except KeyboardInterrupt:
        out.note(
            "interrupted: `longhaul stage drain` goes on, and with --undo it lets jobs start again",
            style="yellow",
        )
        raise
    out.line("drained: nothing runs, and nothing starts")
    for each in queues(drainer):
        if each.level is not Level.OK:
            out.line(each.what)
    table, bucket = target.settings.leases_table, target.settings.paths.data_bucket
    if not target.place.embedded:
        out.line(f"`longhaul destroy` takes the stack down; table {table} and bucket {bucket} stay")
    out.line("`longhaul stage drain --undo` goes back")


def _tell(out: Output, target: "Target", name: str) -> None:
    from longhaul.cli.display.slots import slots_of

    stage = target.stage(name)
    out.line(f"{stage.name}: {slots_of(target.parts.slots.use(stage), stage)}")
