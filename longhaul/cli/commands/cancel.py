"""`longhaul cancel`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
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
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of the jobs.")],
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs, and all that descends from them: queued, between attempts, or running.

    A running job stops at its next progress report or beat. A job between attempts ends at once. A
    queued job ends when its message comes: a queue cannot be searched, so an id of which nothing is
    known may be a typo, which the command says. A job that has committed its output ends as a
    success, and nothing follows it. Of a success, what descends from it is cancelled, from the top.

    It covers all that was sent under that id before; what is sent afterwards runs. An ended job
    stays as it is; the exit code is 1 unless it was cancelled before, or something below it was.
    The name of a backfill stands for all jobs that it has sent, and no more of it is sent then.

    Example: longhaul cancel flights-2013-01 flights-2013-02
    """
    from longhaul.cli.display.job import NOT_KNOWN, cancelled_as, is_stopped
    from longhaul.cli.terminal.selection import job_id
    from longhaul.domain.job_state import shown_state

    out = Output(as_json=as_json)
    wanted = [(job_id(each), *_known(target, each, stage)) for each in jobs]
    out.say_where(target)
    too_late = 0
    for each, names, backfill in wanted:
        if backfill is not None:
            leases = below = _cancel_backfill(out, target, backfill)
        else:
            below = [] if only else _cancel_trees(target, names, each)
            leases = below or [target.canceller.cancel(name, each) for name in names]
        # It may have been claimed meanwhile, in one of them.
        claimed = [lease for lease in leases if not lease.is_open_mark]
        shown = below or claimed or leases
        is_unsent = backfill is not None and backfill.unsent
        too_late += not (is_unsent or any(is_stopped(lease) for lease in shown))
        for lease in shown if as_json or below else shown[:1]:
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


def _cancel_trees(target: "Target", names: Sequence[str], job: str) -> "list[Lease]":
    """The rows of what was cancelled of a known job and what descends from it."""
    rows = [row for row in target.jobs.find(names, job) if not row.is_open_mark]
    return [lease for row in rows for lease in target.tree_canceller.cancel(row)]


def _known(target: "Target", text: str, stage: str | None) -> "tuple[list[str], Backfill | None]":
    """The stage of a known job, and the backfill of that name where there is none.

    A job that is unknown may be queued in each of the stages.

    Raises:
        CommandError: the same id is used in several stages.
    """
    from longhaul.cli.terminal.selection import find_backfill, job_id

    names = [each.name for each in target.stages(stage)]
    rows = target.jobs.find(names, job_id(text))
    found = [row.stage for row in rows if not row.is_open_mark]
    if len(found) > 1:
        raise CommandError(
            f"job {text} is in several stages ({', '.join(found)}): name one with --stage",
            ExitStatus.USAGE,
        )
    return found or names, None if found else find_backfill(target, text, names)
