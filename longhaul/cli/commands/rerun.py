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
    from collections.abc import Sequence

    from longhaul.cli.target import Target
    from longhaul.domain.lease import Lease
    from longhaul.operations.rerun import Rerun


@on_target
def rerun(
    target: "Target",
    *,
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB", help="Ids or labels of jobs, or names of backfills."),
    ],
    params: Annotated[list[str] | None, params_option()] = None,
    size: Annotated[
        str | None, typer.Option("--size", help="tiny, small, medium, large or xlarge.")
    ] = None,
    dead: Annotated[
        bool,
        typer.Option(
            "--dead", help="Only what died or was cancelled, of the job and all behind it."
        ),
    ] = False,
    tree: Annotated[
        bool, typer.Option("--tree", help="Run again all that began with the job's root.")
    ] = False,
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run jobs that have ended again in their places, with their requests or changed ones.

    Dead, cancelled or succeeded: it starts a new run of the id, and what it led to runs again, each
    in its place. A join behind it waits for what is new, and runs again with the outputs of all its
    members. With --only what followed is left alone. An output that it appended to gets the new
    rows in the place of the old. A dead job goes on from what it has stored, if it has.

    The name of a backfill means its jobs that died or were cancelled. If a job that is named cannot
    run again, none is sent. Of those behind it the others are sent, and it is named at the end.
    Prints the ids. --param takes the place of the request's parameter of that name.

    Example: longhaul rerun flights-2013-01 --size large

    Example: longhaul rerun flights-2013 --dead

    Example: longhaul rerun flights-2013-01 --tree --param 'rounded=true'
    """
    from longhaul.domain.errors import InvalidRequestError
    from longhaul.domain.lease import State
    from longhaul.operations.errors import NotRetriableError

    out = Output(as_json=as_json)
    given = pairs("--param", params, json_or_text)
    planned, refused, left_out = list["Rerun"](), list[str](), list[str]()
    for each in jobs:
        rows, is_named = _meant(target, each, stage, dead=dead, tree=tree)
        for row in rows:
            try:
                plan = target.rerunner.plan(row, params=given, size=size, afresh=afresh, only=only)
            except NotRetriableError as error:
                (refused if is_named else left_out).append(f"{row.job_id}: {error}")
            except InvalidRequestError as error:
                raise CommandError(
                    "\n".join(f"{row.job_id}: {each}" for each in error.problems), ExitStatus.USAGE
                ) from None
            else:
                target.open_stage(plan.stage.name)
                _check_params(out, target, plan)
                planned.append(plan)
    if refused:
        raise CommandError("\n".join(refused))
    out.say_where(target)
    for plan in planned:
        message_id = target.rerunner.send(plan)
        if as_json:
            out.record(
                {
                    "job_id": plan.of.job_id,
                    "stage": plan.of.stage,
                    "message_id": message_id,
                    "run_before": plan.of.run,
                }
            )
        else:
            out.line(plan.of.job_id)
    if any(plan.of.state is State.DEAD for plan in planned):
        out.note("dead letters stay in the queue: `longhaul dlq drop JOB` once they have succeeded")
    if left_out:
        raise CommandError("\n".join(left_out))


def _meant(
    target: "Target", text: str, stage: str | None, *, dead: bool, tree: bool
) -> "tuple[Sequence[Lease], bool]":
    """The rows of the jobs that run again, and whether they are those that were named.

    Raises:
        CommandError: none has died or was cancelled, where only those are meant.
    """
    from longhaul.cli.terminal.selection import find_work
    from longhaul.domain.backfill import Backfill
    from longhaul.operations.tree import stopping, unwell

    found = find_work(target, text, stage)
    if isinstance(found, Backfill):
        walked = target.trees.walk_backfill(found)
    else:
        root = target.rerunner.root(found) if tree else found
        if not dead:
            return [root], True
        walked = target.trees.walk(root)
    rows = unwell(walked) or stopping(walked)
    if not rows:
        raise CommandError(f"{text}: none of its jobs has died or was cancelled")
    return rows, False


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
