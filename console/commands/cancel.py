"""`longhaul cancel`: end jobs wherever they are."""

from typing import Annotated

import typer

from console.errors import CommandError, ExitCode
from console.options import AsJson, StageName, job_id, on_target
from console.output import Output
from console.show import cancelled_as
from console.target import Target, say_where
from longhaul.domain.lease import State
from longhaul.view import shown_state


@on_target
def cancel(
    target: Target,
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of the jobs.")],
    stage: StageName = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs: queued, waiting for their next attempt, or running.

    A running job stops at its next progress report or beat; one between attempts ends at once; one that nobody has claimed yet ends when its message comes. What has
    ended already stays as it is, and makes the exit code 1.

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
            out.record({"job_id": each, "stage": name, "state": shown_state(lease), "queued": lease.is_mark})
        else:
            out.line(f"{each}: {cancelled_as(lease)}")
    if too_late:
        raise typer.Exit(ExitCode.FAILED)


def _stage_of(target: Target, text: str, stage: str | None) -> str:
    """The stage in which the job is known; for one that is not, the only stage that there is."""
    names = [each.name for each in target.stages(stage)]
    found = [row.stage for row in target.jobs.find(names, job_id(text))] or names
    if len(found) > 1:
        raise CommandError(
            f"job {text} could be in several stages ({', '.join(found)}): name one with --stage", ExitCode.USAGE
        )
    return found[0]
