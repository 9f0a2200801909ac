"""Jobs of the size `tiny`: drawn into some worlds, and worlds in which Lambda does its worst."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.endings import LAMBDA_FAULTS, PLATFORM_FAULTS
from simulation.worlds.plan import TINY, Act, Ending, Fault, Job, Plan, world_of
from simulation.worlds.swarm import Swarm

_LONGEST_WORK_S = 600.0  # what fits an invocation, with all around it
_LONGEST_TIMEOUT_S = 840  # a job that asks for more runs on Fargate
_ON_LAMBDA = 0.8
_ABOVE = 0.3
_FREEZES = 0.5


def with_tiny(rng: random.Random, plan: Plan) -> Plan:
    """The plan with short jobs that ask for the size `tiny`."""
    swarm = Swarm.of(plan)
    jobs = tuple(
        replace(job, size=TINY, endings=_frozen(rng, job, swarm)) if _is_short(rng, job) else job
        for job in plan.jobs
    )
    return replace(plan, jobs=jobs)


def _is_short(rng: random.Random, job: Job) -> bool:
    if job.work_s > _LONGEST_WORK_S or rng.random() >= _ON_LAMBDA:
        return False
    return (job.timeout_s or 0) <= _LONGEST_TIMEOUT_S or rng.random() < _ABOVE


def _frozen(rng: random.Random, job: Job, swarm: Swarm) -> tuple[Ending, ...]:
    """Some faults of a platform become one that Lambda alone has."""
    (kind,) = LAMBDA_FAULTS
    if not swarm.has(kind):
        return job.endings
    return tuple(
        replace(each, kind=kind)
        if each.kind in PLATFORM_FAULTS and rng.random() < _FREEZES
        else each
        for each in job.endings
    )


def _plan(*endings: str, acts: tuple[Act, ...] = (), **changes: Any) -> Plan:
    ends = tuple(Ending(kind, 2.0) for kind in endings)
    job = Job("j0", work_s=9.0, files=1, size=TINY, stall_timeout_s=60, endings=ends)
    return world_of(job, *acts, **changes)


def _invoked(kind: str) -> Plan:
    return _plan(faults=(Fault("invoke:tiny@j0-1", 1, kind),))


TINY_WORLDS: Mapping[str, Plan] = {
    "a tiny job succeeds": _plan(),
    "a tiny job's invocation runs twice": _invoked("doubled"),
    "a tiny job works on when the answer to its invocation is lost": replace(
        _invoked("lost"), jobs=(Job("j0", work_s=300.0, files=1, size=TINY),)
    ),
    "a tiny job's execution is stopped, and its invocation goes on": replace(
        _plan(acts=(Act(60.0, "stop_execution", "j0"),)),
        jobs=(Job("j0", work_s=300.0, files=1, size=TINY),),
    ),
    "a tiny job goes on when Step Functions calls it ended": _plan("cut_off"),
    "a tiny job hangs until Lambda's time is up": _plan("hangs"),
    "a tiny job hangs, is cancelled and sent again": _plan(
        "hangs", acts=(Act(30.0, "cancel", "j0"), Act(40.0, "resubmit", "j0"))
    ),
    "a tiny job dies, and its correction runs at once": _plan(
        "fails", max_attempts=1, acts=(Act(60.0, "resubmit", "j0"),)
    ),
    "a tiny job is never initialized, then late": _plan("never_starts", "fails_to_start"),
    "a tiny job runs out of memory": _plan("oom_killed", max_attempts=2),
    "a tiny job's environment is lost again and again": _plan(*["infrastructure"] * 5),
    "Lambda has no room for a tiny job for hours": _plan(
        acts=(Act(0.5, "outage", for_s=14_400.0, service="capacity"),)
    ),
    "a tiny job may not be started for hours": _plan(
        acts=(Act(0.5, "outage", for_s=14_400.0, service="rights"),)
    ),
    **{
        # Thawed soon, by the next attempt in its environment, or never: the seed's choice.
        f"a tiny job's environment is frozen ({seed})": replace(_plan("frozen"), seed=seed)
        for seed in (1, 4, 5)
    },
    "a tiny job asks for more time than Lambda has": replace(
        _plan(), jobs=(Job("j0", work_s=1_000.0, files=1, size=TINY, timeout_s=1_800),)
    ),
}
