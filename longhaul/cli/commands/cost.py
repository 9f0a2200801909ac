"""`longhaul cost`: what jobs cost, and what part of it was wasted."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, Most, NewerThan, OlderThan, StageOption
from longhaul.cli.terminal.output import Output
from longhaul.domain.durations import format_duration

if TYPE_CHECKING:
    from longhaul.cli.insight.cost import AttemptCost, JobCost, Pricing
    from longhaul.cli.target import Target


ATTEMPTS = (
    "attempt",
    "outcome",
    "went into",
    "size",
    "paid",
    "beats",
    "task",
    "around it",
    "total",
    "saved",
)

# `docs/deploy.md` has what each costs.
_LEFT_OUT = (
    "left out: what the stack costs by itself, the calls of functions, queues and table, the "
    "stages' own alarms and what jobs measure, logs and stored data, secrets, AWS Config's records "
    "of network interfaces, X-Ray, images in ECR, free tiers and taxes "
    "(docs/deploy.md); what was billed is in Cost Explorer"
)

JOBS = ("job", "stage", "state", "attempts", "total", "wasted")


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
    most: Most = 1000,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            help="Your own price table, in the form of longhaul/cli/prices.json.",
            show_default="built in",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what jobs cost: each attempt of one job, or each stage.

    Task time is ECS's own where it is known. It is useful; failed, interrupted or cancelled, which
    is wasted; or running, not known yet. docs/deploy.md#what-it-costs says what is counted, and
    what is left out. By default it is of open jobs, and of those that ended within seven days.

    Example: longhaul cost flights-2013-01

    Example: longhaul cost --newer-than 1d --jobs
    """
    from longhaul.cli.insight.prices import USUAL
    from longhaul.cli.terminal.selection import find_job, lanes_of, select_lanes

    out = Output(as_json=as_json)
    pricing = _pricing(target, prices or USUAL)
    now = target.parts.clock.now()
    if job is not None:
        lanes = list(lanes_of(target, [find_job(target, job, stage)]))
    else:
        lanes = select_lanes(
            out, target, stage=stage, older_than=older_than, newer_than=newer_than, most=most
        )
    jobs = [pricing.job(lane, now) for lane in lanes]
    if job is not None:
        _job(out, jobs[0], pricing.prices.currency)
    elif by_job:
        _jobs(out, jobs, pricing.prices.currency)
    else:
        _stages(out, jobs, pricing.prices.currency)
    for note in _notes(jobs, pricing):
        out.note(note)
    if job is None:
        out.note(_LEFT_OUT)


def _pricing(target: "Target", file: Path) -> "Pricing":
    from pydantic import ValidationError

    from longhaul.cli.insight.cost import Pricing
    from longhaul.cli.insight.prices import USUAL, read_prices

    try:
        prices = read_prices(file)
    except ValidationError as error:
        first = error.errors()[0]
        what = ": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": ")
        raise CommandError(
            f"{file} is no price table: {what}; {USUAL} is one", ExitStatus.USAGE
        ) from error
    return Pricing(prices, target.settings)


def _job(out: Output, job: "JobCost", unit: str) -> None:
    from longhaul.cli.insight.cost import money

    if out.as_json:
        for each in job.attempts:
            out.record(_attempt_record(each))
        return
    _table(out, ATTEMPTS, unit, [_attempt_row(each) for each in job.attempts])
    if len(job.attempts) > 1:
        out.note(
            f"{job.lane.row.job_id}: {money(job.cost.total)} {unit} in all, "
            f"{money(job.wasted)} {unit} of it wasted"
        )


def _table(out: Output, columns: Sequence[str], unit: str, rows: list[list[str]]) -> None:
    from longhaul.cli.insight.cost import SpentOn

    amounts = {"task", "around it", "total", "saved", "wasted", *SpentOn}
    heading = [f"{each} ({unit})" if each in amounts else each for each in columns]
    if rows:
        out.table(heading, rows, always_headed=True)


def _attempt_row(each: "AttemptCost") -> list[str]:
    from longhaul.cli.insight.cost import money

    record, cost = each.record, each.cost
    about = "" if each.usage.by_ecs else "about "
    spot = " spot" if each.usage.spot else ""
    return [
        str(record.attempt.number),
        record.kind or record.state.value,
        each.spent_on.value,
        f"{record.size}{spot}",
        f"{about}{format_duration(each.usage.task_s)}",
        str(each.usage.beats),
        money(cost.task),
        money(cost.total - cost.task),
        money(cost.total),
        money(each.saved),
    ]


def _attempt_record(each: "AttemptCost") -> dict[str, Any]:
    from longhaul.operations.view import attempt_names

    record, used = each.record, each.usage
    return {
        **attempt_names(record),
        "fate": each.spent_on.value,
        "size": record.size,
        "spot": used.spot,
        "task_s": round(used.task_s, 3),
        "by_ecs": used.by_ecs,
        "beats": used.beats,
        "transitions": used.transitions,
        "total": each.cost.total,
        "saved": each.saved,
        "parts": each.cost.parts(),
    }


def _stages(out: Output, jobs: "list[JobCost]", unit: str) -> None:
    from longhaul.cli.insight.cost import SpentOn, by_stage

    found = by_stage(jobs)
    if out.as_json:
        for name, of_stage in found.items():
            out.record({"stage": name, **_sums(of_stage)})
    else:
        rows = [_stage_row(name, of_stage) for name, of_stage in found.items()]
        _table(out, ("stage", "jobs", "attempts", "total", *SpentOn), unit, rows)


def _jobs(out: Output, jobs: "list[JobCost]", unit: str) -> None:
    dearest = sorted(jobs, key=lambda each: -each.cost.total)
    if out.as_json:
        for each in dearest:
            row = each.lane.row
            out.record(
                {
                    "job_id": row.job_id,
                    "stage": row.stage,
                    "state": row.state.value,
                    **_sums([each]),
                }
            )
    else:
        _table(out, JOBS, unit, [_job_row(each, by_name=out.data.is_terminal) for each in dearest])


def _sums(jobs: "list[JobCost]") -> dict[str, Any]:
    from longhaul.cli.insight.cost import amounts_spent

    return {
        "jobs": len(jobs),
        "attempts": sum(len(each.attempts) for each in jobs),
        "total": sum(each.cost.total for each in jobs),
        "by_fate": {on.value: amount for on, amount in amounts_spent(jobs).items()},
    }


def _stage_row(name: str, jobs: "list[JobCost]") -> list[str]:
    from longhaul.cli.insight.cost import amounts_spent, money

    sums = _sums(jobs)
    amounts = [money(amount) for amount in amounts_spent(jobs).values()]
    return [name, str(sums["jobs"]), str(sums["attempts"]), money(sums["total"]), *amounts]


def _job_row(each: "JobCost", *, by_name: bool) -> list[str]:
    from longhaul.cli.display.job import name_of
    from longhaul.cli.insight.cost import money

    row = each.lane.row
    return [
        name_of(row) if by_name else row.job_id,
        row.stage,
        row.state.value,
        str(len(each.attempts)),
        money(each.cost.total),
        money(each.wasted),
    ]


def _notes(jobs: "list[JobCost]", pricing: "Pricing") -> list[str]:
    attempts = [each for job in jobs for each in job.attempts]
    prices = pricing.prices
    notes = [] if jobs else ["no job matches"]
    notes.append(
        f"prices: {prices.currency}, {prices.region}, {prices.date}, "
        "without free tiers and taxes (docs/deploy.md)"
    )
    about = sum(not each.usage.by_ecs and each.usage.task_s > 0 for each in attempts)
    if about:
        notes.append(
            f"{about} of {len(attempts)} attempts: the task's own times are not known; "
            "the time from claim to end is taken"
        )
    if unknown := {each.record.size for each in attempts if each.usage.size is None}:
        notes.append(
            f"the stack has no size {', '.join(sorted(unknown))}: those tasks are not counted; "
            "deploy it again"
        )
    return notes
