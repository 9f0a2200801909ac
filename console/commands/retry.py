"""`longhaul retry`: run jobs again that died or were cancelled."""

from typing import Annotated

import typer

from console.errors import CommandError, ExitCode
from console.options import AsJson, StageName, find_job, on_target
from console.output import Output
from console.target import Target, say_where
from longhaul.domain.lease import State
from longhaul.retry import why_not


@on_target
def retry(
    target: Target,
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of the jobs.")],
    stage: StageName = None,
    as_json: AsJson = False,
) -> None:
    """Run jobs again that died or were cancelled, from the request that is kept: each as a new run under its old id.

    A job that has succeeded is not run again: the same work under the same id is a duplicate. Submit it under another id. All jobs are looked at before the first is
    sent; if one cannot be retried, none is.

    Example: longhaul retry flights-2013-01
    """
    out = Output(as_json=as_json)
    leases = [find_job(target, each, stage) for each in jobs]
    problems = [f"{lease.job_id}: {problem}" for lease in leases if (problem := why_not(lease))]
    if problems:
        raise CommandError("\n".join(problems), ExitCode.FAILED)
    say_where(out, target)
    for lease in leases:
        target.retrier.retry(lease)
        if as_json:
            out.record({"job_id": lease.job_id, "stage": lease.stage, "run_before": lease.run})
        else:
            out.line(lease.job_id)
    if any(lease.state is State.DEAD for lease in leases):
        out.note(
            "what they left in the dead-letter queue stays there: `longhaul dlq drop JOB` once they have succeeded"
        )
