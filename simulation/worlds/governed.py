"""Trouble from outside: policies that deny, and outages of hours or days.

Accounts that others govern: a policy denies for a while what a role of the template allows.

An outage whose service is `denied:SERVICE` answers AccessDenied to each call of that service, as a
service control policy makes it. With `denied:SERVICE@HOSTS` only one role is denied: `task` (and
`driver`), or a function's name. `encrypted:glue` and `encrypted:glue@HOSTS` stand for a catalog
with a key that the role may not use.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from longhaul.core.request import MAX_TIMEOUT_S
from simulation.worlds.plan import EMR, TINY, Act, Ending, Job, Plan
from simulation.worlds.randomness import unit
from simulation.worlds.stages import CLEAN, MAIN

ROLES = ("task", "settle", "dispatcher", "sweeper")
_OF_ONE_ROLE = 0.4
_HOUR_S = 3_600.0
_SOON_S = 300.0

# Before the job of `_plan` is sent, and as it is claimed, read by its task, worked on, published.
_FROM_S = {
    "dynamodb": (0.5, 2.0, 60.0, 75.0, 84.0),
    "ecs": (0.5,),
    "s3": (0.5, 2.0, 60.0, 75.0, 84.0),
    "sqs": (2.0, 60.0, 75.0),
    "stepfunctions": (0.5, 2.0),
}


def with_denial(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a policy that denies a service for minutes or hours, then heals."""
    service = rng.choice((*_FROM_S, *(["glue"] if plan.has_tables else [])))
    role = f"@{rng.choice(ROLES)}" if rng.random() < _OF_ONE_ROLE else ""
    for_s = round(60 + 4 * _HOUR_S * rng.random() ** 3)
    act = _denied(f"{service}{role}", round(_SOON_S * rng.random(), 1), for_s)
    return replace(plan, acts=tuple(sorted((*plan.acts, act), key=lambda each: each.at_s)))


def with_refused_role(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a role that no engine takes for a while: of one stage, or of all."""
    stage = rng.choice((MAIN, CLEAN)) if plan.clean_slots else rng.choice((MAIN, ""))
    at_s, for_s = round(_SOON_S * rng.random(), 1), round(60 + 4 * _HOUR_S * rng.random() ** 3)
    service = f"rights:{stage}" if stage else "rights"
    act = Act(at_s, "outage", for_s=for_s, service=service)
    return replace(plan, acts=tuple(sorted((*plan.acts, act), key=lambda each: each.at_s)))


def _denied(what: str, at_s: float, for_s: float, how: str = "denied") -> Act:
    return Act(at_s, "outage", for_s=for_s, service=f"{how}:{what}")


def _plan(job: Job, *acts: Act, **changes: Any) -> Plan:
    ordered = sorted((Act(1.0, "submit", job.name), *acts), key=lambda act: act.at_s)
    return replace(Plan(jobs=(job,), acts=tuple(ordered), faults=()), **changes)


_JOB = Job("j0", work_s=9.0, files=1)
_FANS_OUT = replace(_JOB, fan_out=2)
_INTO_TABLE = Job("j0", work_s=9.0, files=1, table="events", mode="append")
# It commits and dies: others publish what it has written.
_DIES = replace(_INTO_TABLE, endings=(Ending("dies_after_commit", 9.5),))

GOVERNED_WORLDS: Mapping[str, Plan] = {
    **{
        f"a policy denies {service} for an hour, {at_s:g} s after the start": _plan(
            _JOB, _denied(service, at_s, _HOUR_S)
        )
        for service, times in _FROM_S.items()
        for at_s in times
    },
    **{
        f"the catalog is {how} to {role} for an hour": _plan(
            _DIES, _denied(f"glue@{role}", 0.5, _HOUR_S, how)
        )
        for role in ROLES
        for how in ("denied", "encrypted")
    },
    # Of those who publish what a job has committed, one may for good not use the catalog.
    **{
        f"the catalog is denied to {role} for good": _plan(
            _DIES, _denied(f"glue@{role}", 0.5, 48 * _HOUR_S)
        )
        for role in ROLES[1:]
    },
    # Each engine says so in words of its own; the fan-out's members wait, the root does not.
    **{
        f"the role of a stage is refused on {name} for an hour": _plan(
            replace(_FANS_OUT, size=size, engine=engine),
            Act(0.5, "outage", for_s=_HOUR_S, service=f"rights:{CLEAN}"),
            jobs=(
                replace(_FANS_OUT, size=size, engine=engine),
                *(replace(_JOB, name=f"j0.{n}", size=size, engine=engine) for n in range(2)),
            ),
            clean_slots=10,
        )
        for name, size, engine in (
            ("Fargate", "", ""),
            ("Lambda", TINY, ""),
            ("EMR Serverless", "", EMR),
        )
    },
    "the catalog is denied to all while a job is published": _plan(
        _INTO_TABLE, _denied("glue", 84.0, 2 * _HOUR_S)
    ),
    "a policy denies the tasks what others may": _plan(_JOB, _denied("s3@task", 0.5, 6 * _HOUR_S)),
    # More often than interruptions are forgiven. The first task registers, and may not commit.
    **{
        f"a policy denies the tasks their rows, {at_s:g} s after the start": _plan(
            _JOB, _denied("dynamodb@task", at_s, 6 * _HOUR_S)
        )
        for at_s in (0.5, 60.0)
    },
}


_HOURS = (0.5, 3.0, 12.0, 30.0)
_WEIGHTS = (55, 28, 12, 5)
_WHEN_MOST_ARE_SENT_S = 600.0

NEVER_ALLOWED = Plan(
    jobs=(Job("j0", work_s=9.0, files=1),),
    acts=(
        Act(0.5, "outage", for_s=8 * 24 * _HOUR_S, service="rights"),
        Act(1.0, "submit", "j0"),
    ),
    faults=(),
)
"""RunTask is denied for good. It takes as long as hundreds of other worlds."""


def with_long_outage(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a time without room or right for tasks, or one without beats.

    It begins when most jobs have been sent.
    """
    for_s = _HOUR_S * rng.choices(_HOURS, _WEIGHTS)[0]
    service = rng.choice(("capacity", "heartbeat"))
    if service == "capacity" and unit(plan.seed, "why no task is placed") < 0.5:
        service = "rights"
    outage = Act(
        round(_WHEN_MOST_ARE_SENT_S * rng.random(), 1), "outage", for_s=for_s, service=service
    )
    jobs = plan.jobs
    if service == "heartbeat" and not any(each.kind == "endless" for each in jobs[0].endings):
        work_s = round(for_s * (0.5 + rng.random()), 1)
        timeout_s = round(2 * work_s + 6 * _HOUR_S)
        first = replace(jobs[0], work_s=work_s, timeout_s=timeout_s, stall_timeout_s=None)
        jobs = (first, *jobs[1:])
    acts = sorted([*plan.acts, outage], key=lambda act: act.at_s)
    return replace(plan, jobs=jobs, acts=tuple(acts))


def with_long_wait(rng: random.Random, plan: Plan) -> Plan:
    """The plan; if it has two jobs, one has the only slot for longer than SQS keeps a message."""
    if len(plan.jobs) < 2 or plan.clean_slots:
        return plan
    retention_s = rng.choice((24, 36, 60)) * _HOUR_S
    work_s = round(retention_s * (0.5 + rng.random()))
    holder = replace(
        plan.jobs[0], work_s=work_s, timeout_s=min(MAX_TIMEOUT_S, 2 * work_s), endings=()
    )
    jobs = (replace(holder, stall_timeout_s=None), *plan.jobs[1:])
    first = Act(0.5, "submit", holder.name)
    return replace(
        plan,
        jobs=jobs,
        acts=(first, *plan.acts),
        slots=1,
        retention_s=round(retention_s),
        # Renewed after a few receives, hundreds of times in such a wait, the copies of sends whose
        # answers are lost would multiply without end.
        renew_receives=Plan.renew_receives,
    )
