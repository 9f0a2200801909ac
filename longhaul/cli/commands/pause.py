"""`longhaul pause`, `longhaul resume` and `longhaul slots`: what a stage may start, at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target


_Stage = Annotated[str, typer.Argument(metavar="STAGE", help="Name of the stage.")]


@on_target
def pause(
    target: "Target",
    *,
    stage: _Stage,
    drain: Annotated[
        bool, typer.Option("--drain", help="Return when none of its jobs runs any more.")
    ] = False,
) -> None:
    """Let no job of a stage start until `longhaul resume`. What runs goes on; messages wait.

    It holds from the next claim on, needs no deployment, and no deployment ends it.

    Example: longhaul pause main --drain
    """
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.drainer(out.note).pause(which, wait=drain)
    _tell(out, target, stage)


@on_target
def resume(target: "Target", *, stage: _Stage) -> None:
    """Let the jobs of a paused stage start again.

    Those that wait are looked at within half an hour, and sooner the fewer they are.

    Example: longhaul resume main
    """
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.parts.slots.resume(which, target.parts.clock.now())
    _tell(out, target, stage)


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

    Example: longhaul slots main 3
    """
    from longhaul.settings import MAX_SLOTS

    if count > MAX_SLOTS:
        raise CommandError(f"a stage has at most {MAX_SLOTS:,} slots", ExitStatus.USAGE)
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.parts.slots.set_slots(which, count)
    _tell(out, target, stage)


def _tell(out: Output, target: "Target", name: str) -> None:
    from longhaul.cli.display.slots import slots_of

    stage = target.stage(name)
    out.line(f"{stage.name}: {slots_of(target.parts.slots.use(stage), stage)}")
