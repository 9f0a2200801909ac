"""`longhaul retry`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import Afresh, AsJson, Only, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longhaul.cli.target import Target
    from longhaul.domain.lease import Lease


@on_target
def retry(
    target: "Target",
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of the jobs.")],
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run dead or cancelled jobs again from their stored requests, as new runs of the same ids.

    Of a success, the jobs that descend from it and died or were cancelled are run again. Without
    such jobs it is refused: `longhaul rerun` runs a success again. The name of a backfill stands
    for all its jobs. If a job that is named cannot be retried, none is sent. Those below it, and
    those whose request is no longer kept, are named at the end, and the others are sent. A dead job
    goes on from what it has stored, if it has.

    Example: longhaul retry flights-2013-01
    """
    from longhaul.domain.lease import Lease, State
    from longhaul.operations.errors import NotRetriableError
    from longhaul.operations.retry import why_not

    out = Output(as_json=as_json)
    leases, problems, failed = list[Lease](), list[str](), list[str]()
    for each in jobs:
        rows, is_named = _meant(target, each, stage, only=only)
        for row in rows:
            if (problem := why_not(row)) is None:
                leases.append(row)
            else:
                (problems if is_named else failed).append(f"{row.job_id}: {problem}")
    if problems:
        raise CommandError("\n".join(problems), ExitStatus.FAILED)
    out.say_where(target)
    for lease in leases:
        try:
            target.retrier.retry(lease, afresh=afresh)
        except NotRetriableError as error:  # the others go on
            failed.append(f"{lease.job_id}: {error}")
            continue
        if as_json:
            out.record({"job_id": lease.job_id, "stage": lease.stage, "run_before": lease.run})
        else:
            out.line(lease.job_id)
    if any(lease.state is State.DEAD for lease in leases):
        out.note(
            "their dead letters stay in the queue: `longhaul dlq drop JOB` once they have succeeded"
        )
    if failed:
        raise CommandError("\n".join(failed), ExitStatus.FAILED)


def _meant(
    target: "Target", text: str, stage: str | None, *, only: bool
) -> "tuple[Sequence[Lease], bool]":
    """What is run again: of a success or a backfill the jobs below it that ended otherwise.

    And whether that is the job itself that was typed.
    """
    from longhaul.cli.terminal.selection import find_work
    from longhaul.domain.backfill import Backfill
    from longhaul.domain.lease import State
    from longhaul.operations.tree import stopping, unwell

    lease = find_work(target, text, stage)
    if isinstance(lease, Backfill):
        tree = target.trees.walk_backfill(lease)
        found = unwell(tree) or stopping(tree)
        if not found:
            why = "none of its jobs has died or was cancelled"
            raise CommandError(f"{text}: {why}", ExitStatus.FAILED)
        return found, False
    if only or lease.state is not State.SUCCEEDED:
        return [lease], True
    tree = target.trees.walk(lease)
    below = unwell(tree) or stopping(tree)
    return below or [lease], not below
