"""Stages with a secret: it rotates, is denied, or is not there."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from longhaul.core.settings import JobVariables
from simulation.worlds.plan import EMR, TINY, Act, Ending, Job, Plan

ARN: Final = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
VARIABLE: Final = "DB_PASSWORD"
VARIABLES: Final = JobVariables(secrets={VARIABLE: ARN})
_HOUR_S: Final = 3_600.0
_UNREADABLE: Final = 0.6
_DELETED: Final = 0.4
_SOON_S: Final = 900.0
_ROLES: Final = ("", "@task", "@driver", "@tiny")


def value_of(version: int) -> str:
    return f"version {version} of the secret"


def with_secrets(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a secret of its stages that rotates, and that now and then no job reads.

    Somebody deletes it and makes it again, a policy denies it to one role or all, or Secrets
    Manager is out.
    """
    times = sorted(round(_SOON_S * rng.random(), 1) for _ in range(rng.randint(0, 4)))
    acts = [Act(at_s, "set_secret", work=n) for n, at_s in enumerate(times, 1)]
    if rng.random() < _UNREADABLE:
        acts += _unreadable(rng, len(times) + 1)
    acts = sorted((*plan.acts, *acts), key=lambda act: act.at_s)
    return replace(plan, secret=True, acts=tuple(acts))


def _unreadable(rng: random.Random, version: int) -> list[Act]:
    at_s = round(_SOON_S * rng.random() ** 2, 1)
    for_s = round(60 + 4 * _HOUR_S * rng.random() ** 3)
    if rng.random() < _DELETED:
        return [Act(at_s, "delete_secret"), Act(at_s + for_s, "set_secret", work=version)]
    service = rng.choice(("secretsmanager", *(f"denied:secretsmanager{of}" for of in _ROLES)))
    return [Act(at_s, "outage", for_s=for_s, service=service)]


def _plan(job: Job, *acts: Act, **changes: Any) -> Plan:
    ordered = sorted((Act(1.0, "submit", job.name), *acts), key=lambda act: act.at_s)
    return replace(Plan(jobs=(job,), acts=tuple(ordered), faults=(), secret=True), **changes)


_JOB: Final = Job("j0", work_s=9.0, files=1)
_FAILS: Final = replace(_JOB, endings=(Ending("fails", 2.0), Ending("fails", 2.0)))

SECRET_WORLDS: Mapping[str, Plan] = {
    "a secret rotates between two attempts": _plan(
        _FAILS, *(Act(at_s, "set_secret", work=n) for n, at_s in enumerate((64.0, 80.0, 120.0), 1))
    ),
    "a job fails until it is dead, with its secret in the error": _plan(
        replace(_FAILS, poison=True)
    ),
    "a policy denies the tasks a secret for six hours": _plan(
        _JOB, Act(0.5, "outage", for_s=6 * _HOUR_S, service="denied:secretsmanager@task")
    ),
    "Secrets Manager is out for an hour": _plan(
        _JOB, Act(0.5, "outage", for_s=_HOUR_S, service="secretsmanager")
    ),
    "a secret is not there for two hours": _plan(
        _JOB, Act(0.5, "delete_secret"), Act(2 * _HOUR_S, "set_secret", work=1)
    ),
    **{
        f"{what} is denied its secret for an hour": _plan(
            replace(_JOB, size=size, engine=engine),
            Act(0.5, "outage", for_s=_HOUR_S, service=f"denied:secretsmanager@{role}"),
        )
        for what, size, engine, role in (
            ("a tiny job", TINY, "", "tiny"),
            ("a driver", "", EMR, "driver"),
        )
    },
    "a secret goes away while jobs run": _plan(
        _FAILS, Act(60.0, "delete_secret"), Act(_HOUR_S, "set_secret", work=1)
    ),
}
