"""`longhaul rerun`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.display.text import counted
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import (
    Afresh,
    AsJson,
    DryRun,
    Kinds,
    NewerThan,
    OlderThan,
    Only,
    Params,
    Size,
    StageOption,
    Yes,
)
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.requests import json_or_text, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from longhaul.cli.target import Target
    from longhaul.operations.rerun import Rerun


@on_target
def rerun(
    target: "Target",
    *,
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB|MESSAGE",
            help="Ids or labels of jobs, names of backfills, or messages of dead letters.",
        ),
    ] = None,
    params: Params = None,
    size: Size = None,
    dead: Annotated[
        bool,
        typer.Option(
            "--dead",
            help="Only what died or was cancelled, of the job and all behind it; without a name all"
            " dead letters.",
        ),
    ] = False,
    tree: Annotated[
        bool,
        typer.Option(
            "--tree",
            help="Begin with the job with which its pipeline began, all of which must have ended.",
        ),
    ] = False,
    kinds: Kinds = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run jobs that have ended again in their places, with their requests or changed ones.

    Dead, cancelled or succeeded: it starts a new run of the id, and keeps its label and its place
    in its pipeline. If it succeeds, what it led to runs again, each in its place; what it does not
    lead to any more stays as it is. A join behind it waits for what is new, and runs again with the
    outputs of all its members, new and kept. With --only what followed is left alone.

    The output takes the place of the old one. What the earlier run had appended is replaced too, so
    each row is there once; of rows that a compaction has mixed with others that is not possible,
    and the run is refused. A dead job goes on from what it has stored in the last two weeks
    (docs/checkpoints.md), unless its request is changed, or with --afresh.

    A job that is running cannot run again, nor one of which a job that it led to has not ended, or
    whose output is not published yet, or whose request is no longer kept. If one that is named
    cannot, none is sent. Of those behind it the others are sent, and it is named at the end. Of two
    reruns with different changes the first runs, and the other becomes a dead letter, class
    conflicting_job_id.

    The name of a backfill means its jobs that died or were cancelled. Prints the ids. --param takes
    the place of the request's parameter of that name, or stands beside them.

    Without a name --dead means all dead letters, and --class and the ages choose some; a message's
    id, or the id of a job that is no longer known, is one. Each is sent again as it was, after a
    question, and then deleted: an interrupt loses none, and no job runs twice. One that is no valid
    request stays. The dead letter of a job that is named stays until `longhaul dlq drop JOB`.

    Example: longhaul rerun flights-2013-01 --size large

    Example: longhaul rerun flights-2013 --dead

    Example: longhaul rerun flights-2013-01 --tree --param 'rounded=true'

    Example: longhaul rerun --class interrupted --newer-than 1d --dry-run
    """
    from longhaul.cli.terminal.letters import handle_letters
    from longhaul.operations.dead_letters import Which
    from longhaul.operations.errors import NoSuchJobError

    out = Output(as_json=as_json)
    which = Which(tuple(jobs or ()), tuple(kinds or ()), older_than, newer_than)
    is_filtered = which != Which(which.names)
    if (jobs and is_filtered) or not (jobs or is_filtered or dead):
        raise CommandError(
            "name jobs, or choose dead letters: --dead, --class, --older-than, --newer-than",
            ExitStatus.USAGE,
        )
    is_of_jobs = bool(params or size or tree or only)
    if is_of_jobs and not jobs:
        raise CommandError(
            "a dead letter is sent again as it was: --param, --size, --tree and --only are for"
            " jobs that are named",
            ExitStatus.USAGE,
        )
    meant, unknown = [], None
    for each in which.names:
        try:
            meant.append(_meant(target, each, stage, dead=dead, tree=tree))
        except NoSuchJobError as error:
            if is_of_jobs:
                raise
            unknown = error
    if meant:
        if unknown:
            raise CommandError(
                f"{unknown}; if it is a dead letter, run it again in a call of its own",
                ExitStatus.NOT_FOUND,
            )
        _rerun_jobs(
            out,
            target,
            meant,
            partial(
                target.rerunner.plan,
                params=pairs("--param", params, json_or_text),
                size=size,
                afresh=afresh,
                only=only,
            ),
            dry_run=dry_run,
        )
        return
    try:
        handle_letters(
            out,
            target,
            target.stages(stage),
            which,
            "run again",
            partial(target.dead_letters.redrive, afresh=afresh),
            yes=yes,
            dry_run=dry_run,
        )
    except CommandError as error:
        if unknown is None or error.status is not ExitStatus.NOT_FOUND:
            raise
        raise unknown from None


def _rerun_jobs(
    out: Output,
    target: "Target",
    meant: "Iterable[tuple[Sequence[Any], bool]]",
    plan: "Callable[[Any], Rerun]",
    *,
    dry_run: bool,
) -> None:
    """Run the jobs of these rows again, as far as they can: as planned.

    Raises:
        CommandError: one that is named cannot; none was sent.
    """
    from longhaul.operations.errors import InvalidRequestError, NotRetriableError

    planned, refused, left_out = list["Rerun"](), list[str](), list[str]()
    for rows, is_named in meant:
        for row in rows:
            try:
                planned.append(plan(row))
            except NotRetriableError as error:
                (refused if is_named else left_out).append(f"{row.job_id}: {error}")
            except InvalidRequestError as error:
                raise CommandError(
                    "\n".join(f"{row.job_id}: {each}" for each in error.problems), ExitStatus.USAGE
                ) from None
    for each in planned:
        target.open_stage(each.stage.name)
    if refused:
        raise CommandError("\n".join(refused))
    out.say_where(target)
    for each in planned:
        message_id = None if dry_run else target.rerunner.send(each)
        out.item(
            {
                "job_id": each.of.job_id,
                "stage": each.of.stage,
                "message_id": message_id,
                "run_before": each.of.run,
            },
            each.of.job_id,
        )
    if dry_run:
        out.note(f"would run {counted(len(planned), 'job')} again: nothing was sent")
    elif any(each.of.state == "DEAD" for each in planned):
        out.note("dead letters stay in the queue: `longhaul dlq drop JOB` once they have succeeded")
    if left_out:
        raise CommandError("\n".join(left_out))


def _meant(
    target: "Target", text: str, stage: str | None, *, dead: bool, tree: bool
) -> "tuple[Sequence[Any], bool]":
    """The rows of the jobs that run again, and whether they are those that were named.

    Raises:
        CommandError: none has died or was cancelled, where only those are meant.
    """
    from longhaul.operations.named import Work, find_work
    from longhaul.operations.tree import stopping, unwell

    work = find_work(target, text, stage, is_whole=True)
    if work.backfill is None:
        root = target.rerunner.root(work.found) if tree else work.found
        if not dead:
            return [root], True
        work = Work(root.key, root)
    walked = work.tree(target)
    rows = unwell(walked) or stopping(walked)
    if not rows:
        raise CommandError(f"{text}: none of its jobs has died or was cancelled")
    return rows, False
