"""`longhaul retry`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.options import Afresh, AsJson, Only, StageOption, on_target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.selection import find_job
from longhaul.domain.lease import Lease, State
from longhaul.operations.retry import why_not
from longhaul.operations.tree import unwell


@on_target
def retry(
    target: Target,
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of the jobs.")],
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run dead or cancelled jobs again from their stored requests, as new runs of the same ids.

    Of a success, the jobs that descend from it and died or were cancelled are run again. Without
    such jobs it is refused: `longhaul rerun` runs a success again. If one of the jobs cannot be
    retried, none is sent. A dead job goes on from what it has stored, if it has.

    Example: longhaul retry flights-2013-01
    """
    out = Output(as_json=as_json)
    wanted = [find_job(target, each, stage) for each in jobs]
    leases = wanted if only else [row for lease in wanted for row in _below(target, lease)]
    problems = [f"{lease.job_id}: {problem}" for lease in leases if (problem := why_not(lease))]
    if problems:
        raise CommandError("\n".join(problems), ExitStatus.FAILED)
    out.say_where(target)
    for lease in leases:
        target.retrier.retry(lease, afresh=afresh)
        if as_json:
            out.record({"job_id": lease.job_id, "stage": lease.stage, "run_before": lease.run})
        else:
            out.line(lease.job_id)
    if any(lease.state is State.DEAD for lease in leases):
        out.note(
            "their dead letters stay in the queue: `longhaul dlq drop JOB` once they have succeeded"
        )


def _below(target: Target, lease: Lease) -> Sequence[Lease]:
    """What is run again for a job: of a success, the jobs below it that ended otherwise."""
    if lease.state is not State.SUCCEEDED:
        return [lease]
    return unwell(target.trees.walk(lease)) or [lease]
