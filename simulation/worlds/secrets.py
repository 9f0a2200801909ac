"""Stages with a secret: it rotates, is denied, or is not there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from longhaul.core.settings import JobVariables
from simulation.worlds.plan import EMR, TINY, Act, Ending, Job, Plan, world_of

ARN: Final = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
VARIABLE: Final = "DB_PASSWORD"
VARIABLES: Final = JobVariables(secrets={VARIABLE: ARN})
_HOUR_S: Final = 3_600.0


def value_of(version: int) -> str:
    return f"version {version} of the secret"


def _plan(job: Job, *acts: Act) -> Plan:
    return world_of(job, *acts, secret=True)


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
