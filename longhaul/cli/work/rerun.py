"""What `longhaul rerun` does."""

from longhaul.cli.checks.params import check_params
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import chosen
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.pairs import json_or_text, pairs
from longhaul.cli.terminal.selection import find_job
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import State
from longhaul.operations.rerun import Rerun


def rerun(  # noqa: PLR0913 - what changes
    target: Target,
    *,
    job: str,
    params: list[str] | None,
    size: str | None,
    tree: bool,
    afresh: bool,
    only: bool,
    stage: str | None,
    as_json: bool,
) -> None:
    out = Output(as_json=as_json)
    given = pairs("--param", params, json_or_text)
    lease = find_job(target, job, stage)
    if tree:
        lease = target.rerunner.root(lease)
    try:
        planned = target.rerunner.plan(lease, params=given, size=size, afresh=afresh, only=only)
    except InvalidRequestError as error:
        raise CommandError("\n".join(error.problems), ExitStatus.USAGE) from None
    target.open_stage(planned.stage.name)
    _check_params(out, target, planned)
    out.say_where(target)
    message_id = target.rerunner.send(planned)
    if as_json:
        out.record(
            {
                "job_id": planned.submission.job_id,
                "stage": lease.stage,
                "message_id": message_id,
                "run_before": lease.run,
            }
        )
    else:
        out.line(planned.submission.job_id)
    if lease.state is State.DEAD:
        out.note(
            "its dead letter stays in the queue: `longhaul dlq drop JOB` once it has succeeded"
        )


def _check_params(out: Output, target: Target, planned: Rerun) -> None:
    """Check the parameters of a project's own job.

    Raises:
        CommandError: they are not the job's.
    """
    project = chosen()
    if project is None or project.stack_name != target.stack:
        return
    wrong, notes = check_params(project, [planned.submission], planned.stage)
    for note in notes:
        out.note(note, style="yellow")
    if wrong:
        raise CommandError("\n".join(map(str, wrong)), ExitStatus.USAGE)
