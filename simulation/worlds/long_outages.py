"""Trouble that lasts for hours or days, in some of the drawn worlds."""

import random
from dataclasses import replace

from simulation.worlds.plan import Act, Plan

_CHANCE = 0.04
_HOUR_S = 3_600.0
_HOURS = (0.5, 3.0, 12.0, 30.0)
_WEIGHTS = (40, 30, 20, 10)
_SOON_S = 600.0


def with_long_outage(rng: random.Random, plan: Plan) -> Plan:
    """The plan; or with it a time without room in Fargate, or one in which a long job cannot beat.

    It begins when most jobs have been sent.
    """
    if rng.random() >= _CHANCE or not plan.jobs:
        return plan
    for_s = _HOUR_S * rng.choices(_HOURS, _WEIGHTS)[0]
    service = rng.choice(("capacity", "heartbeat"))
    outage = Act(round(_SOON_S * rng.random(), 1), "outage", for_s=for_s, service=service)
    jobs = plan.jobs
    if service == "heartbeat" and not any(each.kind == "endless" for each in jobs[0].endings):
        work_s = round(for_s * (0.5 + rng.random()), 1)
        timeout_s = round(2 * work_s + 6 * _HOUR_S)
        first = replace(jobs[0], work_s=work_s, timeout_s=timeout_s, stall_timeout_s=None)
        jobs = (first, *jobs[1:])
    acts = sorted([*plan.acts, outage], key=lambda act: act.at_s)
    return replace(plan, jobs=jobs, acts=tuple(acts))
