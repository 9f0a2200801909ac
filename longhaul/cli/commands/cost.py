"""`longhaul cost`: what jobs cost, and what part of it was wasted."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import MANY, AsJson, NewerThan, OlderThan, StageOption
from longhaul.cli.terminal.output import Output
from longhaul.core.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longhaul.cli.target import Target
    from longhaul.operations.cost import AttemptCost, Prices
    from longhaul.operations.timeline import Lane

_USUAL = timedelta(days=7)
ATTEMPTS = ("attempt", "outcome", "spent on", "size", "paid", "task", "around it", "total")

# `docs/deploy.md` has what each costs.
_LEFT_OUT = (
    "left out: what the stack costs by itself, the calls of functions, queues, table and bucket, "
    "the stages' own alarms and what jobs measure, logs and stored data, secrets, AWS Config's "
    "records of network interfaces, X-Ray, images in ECR, free tiers and taxes (docs/deploy.md); "
    "what was billed is in Cost Explorer"
)


@on_target
def cost(
    target: "Target",
    *,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB",
            help="A job's id or label, or how one begins; without it, all jobs by stage.",
        ),
    ] = None,
    by_job: Annotated[
        bool,
        typer.Option("--jobs", help="Each job instead of each stage, the most expensive first."),
    ] = False,
    stage: StageOption = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MANY, help="At most this many open jobs, and ended jobs.")
    ] = 1000,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            help="Your own price table, in the form of longhaul/operations/prices.json.",
            show_default="built in",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what jobs cost: each attempt of one job, or each stage.

    Task time is ECS's own where it is known. What failed, was interrupted or cancelled is wasted;
    of what runs that is not known yet. docs/deploy.md#what-it-costs says what is counted, and what
    is left out. By default it is of open jobs, and of those that ended within seven days.

    Example: longhaul cost flights-2013-01

    Example: longhaul cost --newer-than 1d --jobs
    """
    from longhaul.operations.cost import cost_of
    from longhaul.operations.find import Ages
    from longhaul.operations.look import Wanted, look
    from longhaul.operations.named import find_work
    from longhaul.operations.timeline import lanes_of

    out = Output(as_json=as_json)
    table, now = _prices(prices), target.parts.clock.now()
    if job is not None:
        rows = [find_work(target, job, stage).found]
    else:
        wanted = Wanted(ages=Ages(older_than, newer_than))
        if older_than is None and newer_than is None:
            wanted = Wanted(ended_within=_USUAL)
            out.note("open jobs, and those that ended within 7 days (--newer-than, --older-than)")
        seen = look(target, target.stages(stage), wanted, limit)
        if seen.more:
            out.note(f"there are more than {limit} jobs: raise --limit, or filter", style="yellow")
        rows = [*seen.jobs]
    costs = [
        (lane, [cost_of(each, table, target.settings, now) for each in lane.attempts])
        for lane in lanes_of(target, rows)
    ]
    attempts = [each for _, of_job in costs for each in of_job]
    if job is not None:
        _attempts(out, attempts, table.currency)
    else:
        _groups(out, costs, table.currency, by_job=by_job)
    for note in _notes(attempts, table):
        out.note(note)
    if job is None:
        out.note(_LEFT_OUT)


def _prices(file: Path | None) -> "Prices":
    from pydantic import ValidationError

    from longhaul.operations.cost import USUAL, Prices

    try:
        return Prices.model_validate_json((file or USUAL).read_bytes())
    except ValidationError as error:
        raise CommandError(f"{file} is no price table: {error}", ExitStatus.USAGE) from error


def _attempts(out: Output, attempts: "Sequence[AttemptCost]", unit: str) -> None:
    from longhaul.operations.cost import money
    from longhaul.operations.view import attempt_names

    rows = []
    for each in attempts:
        record, task = each.record, each.task or 0.0
        if out.as_json:
            names = ("spent_on", "task_s", "is_exact", "task", "around", "total")
            numbers = {name: getattr(each, name) for name in names}
            out.record({**attempt_names(record), "size": record.size, **numbers})
        spot = " spot" if record.capacity == "FARGATE_SPOT" else ""
        about = "" if each.is_exact else "about "
        rows.append(
            [
                str(record.attempt.number),
                record.kind or record.state.value,
                each.spent_on,
                f"{record.size}{spot}",
                f"{about}{format_duration(each.task_s)}",
                *map(money, (task, each.around, each.total)),
            ]
        )
    if rows and not out.as_json:
        heading = [*ATTEMPTS[:-3], *(f"{each} ({unit})" for each in ATTEMPTS[-3:])]
        out.table(heading, rows)


def _groups(
    out: Output,
    costs: "Sequence[tuple[Lane, Sequence[AttemptCost]]]",
    unit: str,
    *,
    by_job: bool,
) -> None:
    """A line for each job, the most expensive first, or for each stage."""
    from longhaul.operations.cost import money, sums

    groups: dict[str, list[tuple[Lane, Sequence[AttemptCost]]]] = {}
    for each in sorted(costs, key=lambda job: job[0].row.stage):
        groups.setdefault(each[0].row.key if by_job else each[0].row.stage, []).append(each)
    lines = []
    for jobs in groups.values():
        attempts = [each for _, of_job in jobs for each in of_job]
        lines.append((jobs[0][0], [len(jobs), len(attempts)], sums(attempts)))
    if by_job:
        lines.sort(key=lambda line: -line[2]["total"])
    rows = []
    for lane, counts, amounts in lines:
        row, by_name = lane.row, out.data.is_terminal
        if out.as_json:
            which = {"stage": row.stage} | ({"job_id": row.job_id} if by_job else {})
            out.record({**which, "jobs": counts[0], "attempts": counts[1], **amounts})
        named = [lane.name if by_name else row.job_id, row.stage] if by_job else [row.stage]
        rows.append([*named, *map(str, counts), *map(money, amounts.values())])
    if rows and not out.as_json:
        heading = [*(("job",) if by_job else ()), "stage", "jobs", "attempts"]
        out.table([*heading, *(f"{each} ({unit})" for each in amounts)], rows)


def _notes(attempts: "Sequence[AttemptCost]", prices: "Prices") -> list[str]:
    notes = [] if attempts else ["no job matches"]
    notes.append(
        f"prices: {prices.currency}, {prices.region}, {prices.date}, "
        "without free tiers and taxes (docs/deploy.md)"
    )
    about = sum(not each.is_exact and each.task_s > 0 for each in attempts)
    if about:
        notes.append(
            f"{about} of {len(attempts)} attempts: the task's own times are not known; "
            "the time from claim to end is taken"
        )
    if unknown := {each.record.size for each in attempts if each.task is None}:
        notes.append(
            f"the stack has no size {', '.join(sorted(unknown))}: those tasks are not counted; "
            "deploy it again"
        )
    return notes
