"""`longhaul cost`: what jobs cost, what of it was for nothing, and what other settings would make of it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from console.errors import CommandError, ExitCode
from console.money import money, wasted
from console.options import AsJson, NewerThan, OlderThan, StageName, find_job, on_target
from console.output import Output
from console.prices import USUAL, read_prices
from console.recorded import Most, recorded
from console.target import Target
from longhaul.domain.cost import AttemptCost, Fate, JobCost, Pricing, by_fate, by_stage
from longhaul.domain.durations import format_duration
from longhaul.domain.what_if import outlooks

ATTEMPTS = ("attempt", "outcome", "went into", "size", "paid", "beats", "task", "around it", "total")
STAGES = ("stage", "jobs", "attempts", "total", *(fate.value for fate in Fate))
JOBS = ("job", "stage", "state", "attempts", "total", "wasted")
OUTLOOKS = ("if", "beats", "heartbeat and rest", "tasks", "total", "difference", "unseen at most")


@on_target
def cost(  # noqa: PLR0913 - filters
    target: Target,
    *,
    job: Annotated[str | None, typer.Argument(help="A job's id; without one: all, by stage.")] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Compare other heartbeat settings, and Spot, on the same jobs.")
    ] = False,
    by_job: Annotated[bool, typer.Option("--jobs", help="Each job instead of each stage, the dearest first.")] = False,
    stage: StageName = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    most: Most = 1000,
    prices: Annotated[
        Path, typer.Option("--prices", help="A price table of your own, in the form of ours.", show_default="ours")
    ] = USUAL,
    as_json: AsJson = False,
) -> None:
    """Show what jobs cost: of one job each attempt, else each stage.

    Task time is ECS's own where it told; calls around it are counted or modelled. docs/cost.md says what is counted, what is assumed, and what is left out.

    Example: longhaul cost flights-2013-01

    Example: longhaul cost --newer-than 1d --what-if
    """
    out = Output(as_json=as_json)
    pricing = _pricing(target, prices)
    now = target.parts.clock.now()
    if job is not None:
        lanes = list(target.jobs.lanes([find_job(target, job, stage)]))
    else:
        lanes = recorded(out, target, stage=stage, older_than=older_than, newer_than=newer_than, most=most)
    jobs = [pricing.job(lane, now) for lane in lanes]
    if what_if:
        _what_if(out, jobs, pricing)
    elif job is not None:
        _job(out, jobs[0])
    elif by_job:
        _jobs(out, jobs)
    else:
        _stages(out, jobs)
    for note in _notes(jobs, pricing):
        out.note(note)


def _pricing(target: Target, file: Path) -> Pricing:
    try:
        prices = read_prices(file)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandError(
            f"{file} is no price table: {place}: {first['msg']}; {USUAL} is one", ExitCode.USAGE
        ) from error
    return Pricing(prices, target.settings)


def _job(out: Output, job: JobCost) -> None:
    if out.as_json:
        for each in job.attempts:
            out.record(_attempt_record(each))
        return
    out.table(ATTEMPTS, [_attempt_row(each) for each in job.attempts])
    if len(job.attempts) > 1:
        out.note(f"{job.lane.row.job_id}: {money(job.cost.total)} in all, {money(wasted(job))} of it for nothing")


def _attempt_row(each: AttemptCost) -> list[str]:
    attempt, cost = each.attempt, each.cost
    about = "" if each.usage.by_ecs else "about "
    spot = " spot" if each.usage.spot else ""
    return [
        str(attempt.attempt),
        attempt.kind or attempt.state.value,
        each.fate.value,
        f"{attempt.size}{spot}",
        f"{about}{format_duration(each.usage.task_s)}",
        str(each.usage.beats),
        money(cost.task),
        money(cost.total - cost.task),
        money(cost.total),
    ]


def _attempt_record(each: AttemptCost) -> dict[str, Any]:
    attempt, used = each.attempt, each.usage
    return {
        "job_id": attempt.key.partition("#")[2],
        "stage": attempt.stage,
        "run": attempt.run,
        "attempt": attempt.attempt,
        "class": attempt.kind,
        "fate": each.fate.value,
        "size": attempt.size,
        "spot": used.spot,
        "task_s": round(used.task_s, 3),
        "by_ecs": used.by_ecs,
        "beats": used.beats,
        "transitions": used.transitions,
        "total": each.cost.total,
        "parts": each.cost.parts(),
    }


def _stages(out: Output, jobs: list[JobCost]) -> None:
    found = by_stage(jobs)
    if out.as_json:
        for name, of_stage in found.items():
            out.record({"stage": name, **_sums(of_stage)})
    else:
        out.table(STAGES, [_stage_row(name, of_stage) for name, of_stage in found.items()])


def _jobs(out: Output, jobs: list[JobCost]) -> None:
    dearest = sorted(jobs, key=lambda each: -each.cost.total)
    if out.as_json:
        for each in dearest:
            row = each.lane.row
            out.record({"job_id": row.job_id, "stage": row.stage, "state": row.state.value, **_sums([each])})
    else:
        out.table(JOBS, [_job_row(each) for each in dearest])


def _sums(jobs: list[JobCost]) -> dict[str, Any]:
    return {
        "jobs": len(jobs),
        "attempts": sum(len(each.attempts) for each in jobs),
        "total": sum(each.cost.total for each in jobs),
        "by_fate": {fate.value: amount for fate, amount in by_fate(jobs).items()},
    }


def _stage_row(name: str, jobs: list[JobCost]) -> list[str]:
    sums = _sums(jobs)
    fates = by_fate(jobs)
    amounts = [money(sums["total"]), *(money(fates[fate]) for fate in Fate)]
    return [name, str(sums["jobs"]), str(sums["attempts"]), *amounts]


def _job_row(each: JobCost) -> list[str]:
    row = each.lane.row
    return [
        row.job_id,
        row.stage,
        row.state.value,
        str(len(each.attempts)),
        money(each.cost.total),
        money(wasted(each)),
    ]


def _what_if(out: Output, jobs: list[JobCost], pricing: Pricing) -> None:
    found = list(outlooks(jobs, pricing))
    base = found[0].cost.total
    if out.as_json:
        for each in found:
            changes = each.scenario.numbers.model_dump(include={"beat_fraction", "beat_floor_s", "beat_ceiling_s"})
            amounts = {"task": each.cost.task, "total": each.cost.total, "difference": each.cost.total - base}
            out.record({"if": each.scenario.name, **changes, "beats": each.beats, **amounts, "unseen_s": each.unseen_s})
        return
    rows = [
        [
            each.scenario.name,
            str(each.beats),
            money(each.cost.total - each.cost.task),
            money(each.cost.task),
            money(each.cost.total),
            f"{'+' if each.cost.total >= base else '-'}{money(abs(each.cost.total - base))}",
            format_duration(each.unseen_s),
        ]
        for each in found
    ]
    out.table(OUTLOOKS, rows)
    share = pricing.prices.fargate.spot_discount
    out.note(
        "modelled: beats as often as each attempt's paid time asks for. Not modelled: what Spot would interrupt; it pays as long as less than "
        f"{share:.0%} of the paid time is lost to that. Unseen at most: until the message of an execution that died with its task shows again"
    )


def _notes(jobs: list[JobCost], pricing: Pricing) -> list[str]:
    attempts = [each for job in jobs for each in job.attempts]
    prices = pricing.prices
    found = [] if jobs else ["no job matches"]
    found.append(
        f"prices: {prices.currency}, {prices.region}, {prices.date}, without free tiers and taxes (docs/cost.md)"
    )
    about = sum(not each.usage.by_ecs and each.usage.task_s > 0 for each in attempts)
    if about:
        found.append(
            f"{about} of {len(attempts)} attempts: ECS did not tell from when to when; from claim to end is taken"
        )
    if unknown := {each.attempt.size for each in attempts if each.usage.size is None}:
        found.append(
            f"the stack does not say what size {', '.join(sorted(unknown))} is: those tasks are not counted; deploy it again"
        )
    return found
