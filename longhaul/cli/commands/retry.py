"""`longhaul retry`."""

from typing import Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.options import Afresh, AsJson, StageOption, on_target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.selection import find_job
from longhaul.domain.lease import State
from longhaul.operations.retry import why_not


@on_target
def retry(
    target: Target,
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of the jobs.")],
    afresh: Afresh = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run dead or cancelled jobs again from their stored requests, as new runs of the same ids.

    A job that has succeeded is refused, because the same request under the same id is a duplicate:
    submit it under another id. If one of the jobs cannot be retried, none is sent. A dead job goes
    on from what it has stored, if it has.

    Example: longhaul retry flights-2013-01
    """
    out = Output(as_json=as_json)
    leases = [find_job(target, each, stage) for each in jobs]
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
