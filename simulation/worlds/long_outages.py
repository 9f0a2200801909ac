"""Trouble that lasts for hours or days, in some of the drawn worlds."""

import random
from dataclasses import replace

from longhaul.core.request import MAX_TIMEOUT_S
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.randomness import unit

_HOUR_S = 3_600.0
_HOURS = (0.5, 3.0, 12.0, 30.0)
_WEIGHTS = (55, 28, 12, 5)
_SOON_S = 600.0

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
    outage = Act(round(_SOON_S * rng.random(), 1), "outage", for_s=for_s, service=service)
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
