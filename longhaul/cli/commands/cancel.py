"""`longhaul cancel`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, Only, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target


@on_target
def cancel(
    target: "Target",
    *,
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB", help="Ids of jobs, or names of backfills."),
    ],
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs, and all that descends from them: queued, between attempts, or running.

    A running job stops at its next progress report or beat. A job between attempts ends at once. A
    queued job ends when its message comes: a queue cannot be searched, so an id of which nothing is
    known may be a typo, which the command says. For the same reason the beginning of an id means no
    job here, and a label only if it can be no id. A job that has committed its output ends as a
    success, and nothing follows it. Of a success, what descends from it is cancelled, from the top.

    It covers all that was sent under that id before; what is sent afterwards runs. An ended job
    stays as it is; the exit code is 1 unless it was cancelled before, or something below it was.
    The name of a backfill stands for all jobs that it has sent, and no more of it is sent then.

    Example: longhaul cancel flights-2013-01 flights-2013-02
    """
    from longhaul.cli.display.job import NOT_KNOWN
    from longhaul.operations.named import checked_id, find_certain
    from longhaul.operations.view import cancelled_as, is_stopped

    out = Output(as_json=as_json)
    stages = [each.name for each in target.stages(stage)]
    wanted = [(find_certain(target, each, stages) or checked_id(each)) for each in jobs]
    out.say_where(target)
    too_late = 0
    for work in wanted:
        unsent = 0
        if isinstance(work, str):  # it may be queued in each of the stages
            marks = [target.canceller.cancel(name, work) for name in stages]
            # It may have been claimed meanwhile, in one of them.
            rows = [row for row in marks if not row.is_open_mark]
            rows = rows or (marks if as_json else marks[:1])
        elif work.backfill is not None:
            unsent = work.backfill.unsent
            rows = work.cancel(target)
            # Of one that has ended all of them.
            tree = work.tree(target)
            rows = rows or [job.lease for job in tree.all() if job.lease is not None]
        else:
            rows = [] if only else work.cancel(target)
            rows = rows or [target.canceller.cancel(work.found.stage, work.found.job_id)]
        if unsent:
            out.note(f"{unsent:,} more were not sent: it was cancelled")
        too_late += not (unsent or any(is_stopped(row) for row in rows))
        for row in rows:
            is_unknown = isinstance(work, str) and row.is_open_mark
            out.item(
                {
                    "job_id": row.job_id,
                    "stage": row.stage,
                    "state": row.shown_state,
                    "queued": row.is_open_mark,
                },
                f"{row.job_id}: {NOT_KNOWN if is_unknown else cancelled_as(row)}",
            )
    if too_late:
        raise typer.Exit(ExitStatus.FAILED)
