"""Jobs that are to begin later: drawn into some worlds, and worlds that try their waits."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.plan import Act, Ending, Job, Plan, world_of

_PLANNED = 0.5
_HOUR_S = 3_600.0
_DAY_S = 24 * _HOUR_S
_DAYS = 0.05


def with_planned(rng: random.Random, plan: Plan) -> Plan:
    """The plan with jobs that are to begin later."""
    by_name = {job.name: job for job in plan.jobs}
    jobs = tuple(
        replace(job, start_s=_start_s(rng))
        if _is_asked_for(job, by_name) and rng.random() < _PLANNED
        else job
        for job in plan.jobs
    )
    return replace(plan, jobs=jobs)


def _is_asked_for(job: Job, by_name: Mapping[str, Job]) -> bool:
    """Whether a producer or another job writes its request, which may name a time."""
    parent, _, place = job.name.rpartition(".")
    return not parent or (place.isdigit() and bool(by_name[parent].fan_out))


def _start_s(rng: random.Random) -> float:
    longest_s = 8 * _DAY_S if rng.random() < _DAYS else 2 * _HOUR_S
    return round(longest_s * rng.random() ** 2, 1)


def _plan(*acts: Act, start_s: float = 3_000.0, ending: str = "", **changes: Any) -> Plan:
    ends = (Ending(ending, 20.0),) if ending else ()
    job = Job("j0", work_s=60.0, files=2, start_s=start_s, endings=ends)
    return world_of(job, *acts, **changes)


PLANNED_WORLDS: Mapping[str, Plan] = {
    "a planned job begins at its time": _plan(),
    "a planned job waits for days": _plan(start_s=9 * _DAY_S),
    "a planned job's first attempt crashes": _plan(ending="crashes"),
    "a planned job is sent again while it waits": _plan(Act(60.0, "submit", "j0")),
    "a planned job is sent for other work while it waits": _plan(Act(60.0, "submit", "j0", work=1)),
    "a planned job is cancelled": _plan(Act(600.0, "cancel", "j0")),
    "a planned job is cancelled, and sent again": _plan(
        Act(600.0, "cancel", "j0"), Act(900.0, "resubmit", "j0")
    ),
    "a planned job is cancelled as it begins": _plan(Act(3_001.0, "cancel", "j0")),
    "the stage of a planned job is paused at its time": _plan(
        Act(2_000.0, "pause", "j0", for_s=9_000.0)
    ),
    "the message of a planned job is lost": _plan(Act(60.0, "purge")),
    "SQS is out as a planned job comes": _plan(Act(1.5, "outage", for_s=600.0, service="sqs")),
    "DynamoDB is out as a planned job begins": _plan(
        Act(2_990.0, "outage", for_s=600.0, service="dynamodb")
    ),
}
