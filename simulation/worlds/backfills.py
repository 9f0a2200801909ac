"""Backfills, drawn: in a world with one it sends the jobs that producers would have sent."""

import random
from collections.abc import Sequence
from dataclasses import replace

from simulation.worlds.occasions import Occasion, Range
from simulation.worlds.plan import Act, Job, Plan

_NAME = "days"
_FEWEST, _MOST = 2, 4
_TOLD = ("sns", "sqs", "events")


def with_backfill(rng: random.Random, plan: Plan) -> Plan:
    """The plan; or, where its stage is a plain one, with a backfill that sends its first jobs.

    It takes the place of their first submissions: what else happens to them stays, and worlds with
    one cost little more. `work` says how many of its jobs may go on at a time. Its command is
    interrupted once these are sent.
    """
    firsts = {act.job: act for act in reversed(plan.acts) if act.kind == "submit"}
    # Jobs that are sent in another way stay as they are.
    sent = [job for job in plan.jobs if job.name in firsts][:_MOST]
    if plan.clean_slots or not sent:
        return plan
    names = {job.name: f"{_NAME}/{n}" for n, job in enumerate(sent)}
    jobs = [replace(job, name=names[job.name], named=True) for job in sent]
    jobs += [Job(f"{_NAME}/{n}", work_s=9.0, files=1) for n in range(len(jobs), _FEWEST)]
    others = list(plan.acts)
    for name in names:
        others.remove(firsts[name])
    acts = [replace(act, job=names.get(act.job, act.job)) for act in others]
    begin_s = min(firsts[name].at_s for name in names)
    found = replace(
        plan,
        jobs=(*jobs, *(job for job in plan.jobs if job.name not in names)),
        acts=tuple(acts),
        notify=plan.notify or rng.choice(_TOLD),
        trees=True,
    )
    return found.plus(Act(begin_s, "backfill", _NAME, rng.choice((0, 0, 1, 2))))


_AT_ONCE: Range = (0.0, 3.0)
_LATER: Range = (0.0, 2_400.0)
_FIRST = ("backfill",)

ACTS_ON_BACKFILLS: Sequence[Occasion] = (
    # It goes on, or is sent again.
    Occasion("backfill", 0.3, _FIRST, seconds=_AT_ONCE, works=(0, 0, 1, 2)),
    Occasion("backfill", 0.3, _FIRST, seconds=_LATER, works=(0, 0, 1, 2)),
    Occasion("cancel_backfill", 0.12, _FIRST, seconds=_AT_ONCE),
    Occasion("cancel_backfill", 0.12, _FIRST, seconds=_LATER),
    Occasion("backfill", 0.7, ("cancel_backfill",), seconds=_LATER),
    Occasion("retry_backfill", 0.25, _FIRST, seconds=_AT_ONCE),
    Occasion("retry_backfill", 0.25, _FIRST, seconds=_LATER),
    Occasion("cancel_tree", 0.08, _FIRST, "roots", _LATER),
    Occasion("retry_tree", 0.08, _FIRST, "roots", _LATER),
    Occasion("rerun_tree", 0.08, _FIRST, "roots", _LATER, works=(0, 4)),
)
