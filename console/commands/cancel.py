"""`longhaul cancel`."""

from typing import Annotated

import typer

from console.display.job import cancelled_as
from console.errors import CommandError, ExitStatus
from console.operations.view import shown_state
from console.target import Target, say_where
from console.terminal.options import AsJson, StageOption, on_target
from console.terminal.output import Output
from console.terminal.selection import job_id
from longhaul.domain.lease import State


@on_target
def cancel(
    target: Target,
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of the jobs.")],
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs: queued, waiting for their next attempt, or running.

    A running job stops at its next progress report or beat. A job between attempts ends at once. A
    queued job ends when its message comes. An ended job stays as it is; the exit code is 1 unless
    it was cancelled before.

    Example: longhaul cancel flights-2013-01 flights-2013-02
    """
    out = Output(as_json=as_json)
    wanted = [(_stage_of(target, each, stage), job_id(each)) for each in jobs]
    say_where(out, target)
    too_late = 0
    for name, each in wanted:
        lease = target.canceller.cancel(name, each)
        too_late += lease.state.is_terminal and lease.state is not State.CANCELLED
        if as_json:
            out.record(
                {
                    "job_id": each,
                    "stage": name,
                    "state": shown_state(lease),
                    "queued": lease.is_mark,
                }
            )
        else:
            out.line(f"{each}: {cancelled_as(lease)}")
    if too_late:
        raise typer.Exit(ExitStatus.FAILED)


def _stage_of(target: Target, text: str, stage: str | None) -> str:
    """The stage of a known job; for an unknown one the only stage."""
    names = [each.name for each in target.stages(stage)]
    found = [row.stage for row in target.jobs.find(names, job_id(text))] or names
    if len(found) > 1:
        raise CommandError(
            f"job {text} could be in several stages ({', '.join(found)}): name one with --stage",
            ExitStatus.USAGE,
        )
    return found[0]
