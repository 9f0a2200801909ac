"""`longhaul cancel`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, Only, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.domain.backfill import Backfill
    from longhaul.domain.lease import Lease


@on_target
def cancel(
    target: "Target",
    *,
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB", help="Ids or labels of jobs, or names of backfills."),
    ],
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs, and all that descends from them: queued, between attempts, or running.

    A running job stops at its next progress report or beat. A job between attempts ends at once. A
    queued job ends when its message comes: a queue cannot be searched, so an id of which nothing is
    known may be a typo, which the command says. For the same reason the beginning of an id means no
    job here. A job that has committed its output ends as a success, and nothing follows it. Of a
    success, what descends from it is cancelled, from the top.

    It covers all that was sent under that id before; what is sent afterwards runs. An ended job
    stays as it is; the exit code is 1 unless it was cancelled before, or something below it was.
    The name of a backfill stands for all jobs that it has sent, and no more of it is sent then.

    Example: longhaul cancel flights-2013-01 flights-2013-02
    """
    from longhaul.cli.display.job import NOT_KNOWN, cancelled_as, is_stopped
    from longhaul.cli.terminal.selection import find_named, job_id
    from longhaul.domain.backfill import Backfill
    from longhaul.domain.job_state import shown_state

    out = Output(as_json=as_json)
    stages = [each.name for each in target.stages(stage)]
    wanted = [find_named(target, each, stages) or job_id(each) for each in jobs]
    out.say_where(target)
    too_late = 0
    for found in wanted:
        if isinstance(found, Backfill):
            leases = below = _cancel_backfill(out, target, found)
        elif isinstance(found, str):  # it may be queued in each of the stages
            below = []
            marks = [target.canceller.cancel(name, found) for name in stages]
            # It may have been claimed meanwhile, in one of them.
            leases = [lease for lease in marks if not lease.is_open_mark] or marks
        else:
            below = [] if only else target.tree_canceller.cancel(found)
            leases = below or [target.canceller.cancel(found.stage, found.job_id)]
        too_late += not (
            any(is_stopped(lease) for lease in leases)
            or (isinstance(found, Backfill) and found.unsent)
        )
        for lease in leases if as_json or below else leases[:1]:
            if as_json:
                out.record(
                    {
                        "job_id": lease.job_id,
                        "stage": lease.stage,
                        "state": shown_state(lease),
                        "queued": lease.is_open_mark,
                    }
                )
            else:
                is_known = below or not lease.is_open_mark
                out.line(f"{lease.job_id}: {cancelled_as(lease) if is_known else NOT_KNOWN}")
    if too_late:
        raise typer.Exit(ExitStatus.FAILED)


def _cancel_backfill(out: Output, target: "Target", backfill: "Backfill") -> "list[Lease]":
    """The rows of what was cancelled of a backfill; of one that has ended all of them."""
    rows = target.tree_canceller.cancel_backfill(backfill)
    if backfill.unsent:
        out.note(f"{backfill.unsent:,} more were not sent: it was cancelled")
    tree = target.trees.walk_backfill(backfill)
    return rows or [job.lease for job in tree.all() if job.lease is not None]
