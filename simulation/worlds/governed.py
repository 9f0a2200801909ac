"""Accounts that others govern: a policy denies for a while what a role of the template allows.

An outage whose service is `denied:SERVICE` answers AccessDenied to each call of that service, as a
service control policy makes it. With `denied:SERVICE@HOSTS` only one role is denied: `task` (and
`driver`), or a function's name. `encrypted:glue` and `encrypted:glue@HOSTS` stand for a catalog
with a key that the role may not use.
"""

from collections.abc import Mapping
from dataclasses import replace

from simulation.worlds.plan import EMR, TINY, Act, Ending, Job, Plan, world_of
from simulation.worlds.stages import CLEAN

ROLES = ("task", "settle", "dispatcher", "sweeper")
_HOUR_S = 3_600.0

# Before the job of `_plan` is sent, and as it is claimed, read by its task, worked on, published.
_FROM_S = {
    "dynamodb": (0.5, 2.0, 60.0, 75.0, 84.0),
    "ecs": (0.5,),
    "s3": (0.5, 2.0, 60.0, 75.0, 84.0),
    "sqs": (2.0, 60.0, 75.0),
    "stepfunctions": (0.5, 2.0),
}


DENIED = tuple(f"denied:{service}" for service in (*_FROM_S, "glue"))


def _denied(what: str, at_s: float, for_s: float, how: str = "denied") -> Act:
    return Act(at_s, "outage", for_s=for_s, service=f"{how}:{what}")


_JOB = Job("j0", work_s=9.0, files=1)
_FANS_OUT = replace(_JOB, fan_out=2)
_INTO_TABLE = Job("j0", work_s=9.0, files=1, table="events", mode="append")
# It commits and dies: others publish what it has written.
_DIES = replace(_INTO_TABLE, endings=(Ending("dies_after_commit", 9.5),))

GOVERNED_WORLDS: Mapping[str, Plan] = {
    **{
        f"a policy denies {service} for an hour, {at_s:g} s after the start": world_of(
            _JOB, _denied(service, at_s, _HOUR_S)
        )
        for service, times in _FROM_S.items()
        for at_s in times
    },
    **{
        f"the catalog is {how} to {role} for an hour": world_of(
            _DIES, _denied(f"glue@{role}", 0.5, _HOUR_S, how)
        )
        for role in ROLES
        for how in ("denied", "encrypted")
    },
    # Of those who publish what a job has committed, one may for good not use the catalog.
    **{
        f"the catalog is denied to {role} for good": world_of(
            _DIES, _denied(f"glue@{role}", 0.5, 48 * _HOUR_S)
        )
        for role in ROLES[1:]
    },
    # Each engine says so in words of its own; the fan-out's members wait, the root does not.
    **{
        f"the role of a stage is refused on {name} for an hour": world_of(
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
    "the catalog is denied to all while a job is published": world_of(
        _INTO_TABLE, _denied("glue", 84.0, 2 * _HOUR_S)
    ),
    "a policy denies the tasks what others may": world_of(
        _JOB, _denied("s3@task", 0.5, 6 * _HOUR_S)
    ),
    # More often than interruptions are forgiven. The first task registers, and may not commit.
    **{
        f"a policy denies the tasks their rows, {at_s:g} s after the start": world_of(
            _JOB, _denied("dynamodb@task", at_s, 6 * _HOUR_S)
        )
        for at_s in (0.5, 60.0)
    },
}


NEVER_ALLOWED = Plan(
    jobs=(Job("j0", work_s=9.0, files=1),),
    acts=(
        Act(0.5, "outage", for_s=8 * 24 * _HOUR_S, service="rights"),
        Act(1.0, "submit", "j0"),
    ),
    faults=(),
)
"""RunTask is denied for good. It takes as long as hundreds of other worlds."""
