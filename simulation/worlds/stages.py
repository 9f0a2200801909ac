"""The stages of a world: `main` as deployed; in a pipeline also others, and joins.

Each has queues like those of `main`. The plan names a pipeline's jobs like others: `j0.2` is the
third that `j0` emits, `j0.0` its follow-on when it emits nothing, `j0.2.1` what that emits, and
`j0.sum` the join that belongs to `j0`. Jobs that the plan does not name are short, and succeed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longhaul.core.request import MAX_TIMEOUT_S
from longhaul.core.settings import Stage
from simulation.worlds.notified import TARGETS
from simulation.worlds.plan import Job, Plan

MAIN, SPLIT, CLEAN, SUM, TOTAL = "main", "split", "clean", "sum", "total"
OTHER = "other"
"""Stays where the only stage is taken out."""


@dataclass(frozen=True)
class Shape:
    """Stages, each of which leads to the next, and the openers of those that join."""

    line: tuple[str, ...]
    openers: Mapping[str, str]

    def after(self, stage: str) -> str | None:
        """The next stage."""
        place = self.line.index(stage) + 1
        return self.line[place] if place < len(self.line) else None

    def before(self, join: str) -> str:
        return self.line[self.line.index(join) - 1]

    def splits(self, stage: str) -> bool:
        """Whether jobs of the stage may emit."""
        after = self.after(stage)
        return after is not None and after not in self.openers


JOINS = (SUM, TOTAL)

SHAPES: Mapping[str, Shape] = {
    "": Shape((MAIN, CLEAN, SUM), {SUM: MAIN}),
    "deep": Shape((MAIN, SPLIT, CLEAN, SUM), {SUM: MAIN}),
    "nested": Shape((MAIN, SPLIT, CLEAN, SUM, TOTAL), {SUM: SPLIT, TOTAL: MAIN}),
}


def stages_of(main: Stage, plan: Plan) -> tuple[Stage, ...]:
    # Some jobs of the worlds run for days.
    limits = main.limits.model_copy(update={"max_timeout_s": MAX_TIMEOUT_S})
    first = main.model_copy(
        update={
            "slots": plan.slots,
            "spot": plan.spot,
            "max_attempts": plan.max_attempts,
            "limits": limits,
            "notify": TARGETS.get(plan.notify),
            "openlineage": plan.notify == "events",
            "tree_ended": plan.trees,
        }
    )
    if not plan.clean_slots:
        is_retired = any(act.kind == "retire" for act in plan.acts)
        return (first, _like(first, OTHER)) if is_retired else (first,)
    shape = SHAPES[plan.shape]
    found = []
    for name in shape.line:
        after = shape.after(name)
        changes: dict[str, Any] = {"next": (after,) if after else ()}
        if name in shape.openers:
            changes |= {"slots": 1, "job": "daily_delays", "join": True}
            # Without a name, it is the nearest stage that can split.
            changes["opener"] = shape.openers[name] if plan.shape == "deep" else None
        elif name != MAIN:
            changes |= {"slots": plan.clean_slots, "job": "flights_clean"}
        found.append((first if name == MAIN else _like(first, name)).model_copy(update=changes))
    return tuple(found)


def without(stages: Sequence[Stage], name: str) -> tuple[Stage, ...]:
    """The stages when one has been taken out."""
    return tuple(_unled(each, name) for each in stages if each.name != name)


def with_retired(stages: Sequence[Stage], name: str) -> tuple[Stage, ...]:
    """The stages when one is retired: nothing leads to it."""
    return tuple(
        each.model_copy(update={"retired": True}) if each.name == name else _unled(each, name)
        for each in stages
    )


def _unled(stage: Stage, name: str) -> Stage:
    return stage.model_copy(update={"next": tuple(each for each in stage.next if each != name)})


def queues_of(
    queues: Mapping[str, Mapping[str, str]], stages: Sequence[Stage], retention_s: int
) -> dict[str, Mapping[str, str]]:
    """Each stage's queues, like those of `main`; dead-letter queues first.

    `retention_s`: how long the jobs queues keep a message; 0 as `main`'s.
    """
    found = {
        _of(stage.name, queue): {name: _of(stage.name, value) for name, value in attributes.items()}
        for stage in stages
        for queue, attributes in queues.items()
    }
    if retention_s:
        for attributes in found.values():
            if "RedrivePolicy" in attributes:
                attributes["MessageRetentionPeriod"] = str(retention_s)
    return dict(found)


def jobs_of(plan: Plan) -> dict[str, Job]:
    """All jobs that a world may see, by name."""
    jobs = {job.name: job for job in plan.jobs}
    if plan.clean_slots:
        for job in plan.jobs:
            if "." not in job.name:
                _add_below(jobs, job, MAIN, SHAPES[plan.shape])
    return jobs


def _add_below(jobs: dict[str, Job], job: Job, stage: str, shape: Shape) -> None:
    """Add the jobs that follow from one of the stage, and those that follow from them."""
    members = members_of(job) if shape.splits(stage) else []
    joins = [f"{job.name}.{join}" for join, opener in shape.openers.items() if opener == stage]
    for name in (*members, *joins):
        jobs.setdefault(name, Job(name, work_s=9.0, files=1))
        if name in joins or job.fan_out is None:
            jobs[name] = _unasked(jobs[name])
    for name in members:
        _add_below(jobs, jobs[name], str(shape.after(stage)), shape)


def _unasked(job: Job) -> Job:
    """The job without the fields of a request, which a follow-on of the stage does not have."""
    return replace(
        job,
        output="",
        table="",
        output_bytes=0,
        mode="overwrite",
        timeout_s=None,
        stall_timeout_s=None,
        max_attempts=None,
        size="",
        engine="",
    )


def members_of(job: Job) -> list[str]:
    """The names of the jobs that follow from it, in order."""
    return [f"{job.name}.{n}" for n in range(1 if job.fan_out is None else job.fan_out)]


def is_too_many(job: Job, plan: Plan) -> bool:
    """Whether the job emits more than one may."""
    return bool(plan.largest_group) and (job.fan_out or 0) > plan.largest_group


def _like(main: Stage, name: str) -> Stage:
    urls = {
        field: _of(name, getattr(main, field)) for field in ("queue_url", "dead_letter_queue_url")
    }
    return main.model_copy(update={"name": name, **urls})


def _of(stage: str, text: str) -> str:
    return text.replace(f"-{MAIN}-", f"-{stage}-")
