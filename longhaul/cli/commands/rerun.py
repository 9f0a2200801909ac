"""`longhaul rerun`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import chosen
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import Afresh, AsJson, Only, StageOption, params_option
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.pairs import json_or_text, pairs

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.operations.rerun import Rerun


@on_target
def rerun(
    target: "Target",
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    params: Annotated[list[str] | None, params_option()] = None,
    size: Annotated[
        str | None, typer.Option("--size", help="tiny, small, medium, large or xlarge.")
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Run again all that began with the job's root.")
    ] = False,
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run a job that has ended again in its place, with its request or a changed one.

    It starts a new run of its id, and what it led to runs again, each in its place. A join behind
    it waits for what is new, and runs again with the outputs of all its members. With --only what
    followed is left alone. An output that it appended to gets the new rows in the place of the old.
    Prints the id. --param takes the place of the request's parameter of that name.

    Example: longhaul rerun flights-2013-01 --size large

    Example: longhaul rerun flights-2013-01 --tree --param 'rounded=true'
    """
    from longhaul.cli.terminal.selection import find_job
    from longhaul.domain.errors import InvalidRequestError
    from longhaul.domain.lease import State

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


def _check_params(out: Output, target: "Target", planned: "Rerun") -> None:
    """Check the parameters of a project's own job.

    Raises:
        CommandError: they are not the job's.
    """
    from longhaul.cli.checks.params import check_params

    project = chosen()
    if project is None or project.stack_name != target.stack:
        return
    wrong, notes = check_params(project, [planned.submission], planned.stage)
    for note in notes:
        out.note(note, style="yellow")
    if wrong:
        raise CommandError("\n".join(map(str, wrong)), ExitStatus.USAGE)
