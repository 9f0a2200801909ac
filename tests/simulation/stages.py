"""The stages of a world: `main` as it is deployed; in a pipeline, `clean` and the join `sum` behind it, with queues like its own.

A pipeline's jobs are in the plan as others are: `j0.2` is the third that `j0` emits, or its follow-on `j0.0` when it emits nothing, and `j0.sum` the one that joins
them. Those that the plan does not name are short, and do well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from longhaul.settings import Stage
from tests.simulation.plan import Job, Plan

MAIN, CLEAN, SUM = "main", "clean", "sum"


def stages_of(main: Stage, plan: Plan) -> tuple[Stage, ...]:
    first = main.model_copy(update={"slots": plan.slots, "spot": plan.spot, "max_attempts": plan.max_attempts})
    if not plan.clean_slots:
        return (first,)
    return (
        first.model_copy(update={"next": (CLEAN,)}),
        _like(first, CLEAN).model_copy(update={"slots": plan.clean_slots, "job": "flights_clean", "next": (SUM,)}),
        _like(first, SUM).model_copy(update={"slots": 1, "job": "daily_delays", "join": True}),
    )


def queues_of(queues: Mapping[str, Mapping[str, str]], stages: Sequence[Stage]) -> dict[str, Mapping[str, str]]:
    """For each stage those of `main`, under its name; dead-letter queues first."""
    return {
        _of(stage.name, queue): {name: _of(stage.name, value) for name, value in attributes.items()}
        for stage in stages
        for queue, attributes in queues.items()
    }


def jobs_of(plan: Plan) -> dict[str, Job]:
    """All that a world may see, by name."""
    jobs = {job.name: job for job in plan.jobs}
    for job in plan.jobs if plan.clean_slots else ():
        if "." not in job.name:
            join = f"{job.name}.{SUM}"
            for name in (*members_of(job), join):
                jobs.setdefault(name, Job(name, work_s=9.0, files=1))
            for name in (join,) if job.fan_out is not None else (join, f"{job.name}.0"):
                jobs[name] = _unasked(jobs[name])
    return jobs


def _unasked(job: Job) -> Job:
    """Without what only a request could say: nobody wrote one for it."""
    return replace(job, output="", mode="overwrite", timeout_s=None, stall_timeout_s=None, max_attempts=None)


def members_of(job: Job) -> list[str]:
    """The names of what follows from it, in their order."""
    return [f"{job.name}.{n}" for n in range(1 if job.fan_out is None else job.fan_out)]


def _like(main: Stage, name: str) -> Stage:
    urls = {field: _of(name, getattr(main, field)) for field in ("queue_url", "dead_letter_queue_url")}
    return main.model_copy(update={"name": name, **urls})


def _of(stage: str, text: str) -> str:
    return text.replace(f"-{MAIN}-", f"-{stage}-")
