"""Backfills, drawn: in a world with one it sends the jobs that producers would have sent."""

import random
from dataclasses import replace

from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.swarm import Swarm

_NAME = "days"
_FEWEST, _MOST = 2, 4
_GOES_ON = 0.7
_SENT_AGAIN = 0.4
_CANCELLED = 0.35
_RETRIED = 0.5
_ONE_JOB = 0.3
_AT_ONCE_S = 3.0
_LATE_S = 2_400.0
_TOLD = ("sns", "sqs", "events")
_OF_ONE_JOB = ("cancel_tree", "retry_tree", "rerun_tree")


def with_backfill(rng: random.Random, plan: Plan) -> Plan:
    """The plan; or, where its stage is a plain one, with a backfill that sends its first jobs.

    It takes the place of their first submissions: what else happens to them stays, and worlds with
    one cost little more. It sends them at once or some of them, goes on, is sent again, and people
    cancel it, retry it and run jobs of it again.
    """
    if plan.clean_slots:
        return plan
    # Jobs that are sent in another way stay as they are.
    submitted = {act.job for act in plan.acts if act.kind == "submit"}
    sent = [job for job in plan.jobs if job.name in submitted][:_MOST]
    if not sent:
        return plan
    names = {job.name: f"{_NAME}/{n}" for n, job in enumerate(sent)}
    jobs = [replace(job, name=names[job.name], named=True) for job in sent]
    jobs += [Job(f"{_NAME}/{n}", work_s=9.0, files=1) for n in range(len(jobs), _FEWEST)]
    firsts = [next(act for act in plan.acts if _submits(act, name)) for name in names]
    others = list(plan.acts)
    for first in firsts:
        others.remove(first)
    at_s = min(act.at_s for act in firsts)
    acts = [replace(act, job=names.get(act.job, act.job)) for act in others]
    acts += _acts(rng, at_s, [job.name for job in jobs], Swarm.of(plan))
    return replace(
        plan,
        jobs=(*jobs, *(job for job in plan.jobs if job.name not in names)),
        acts=tuple(sorted(acts, key=lambda act: act.at_s)),
        notify=plan.notify or rng.choice(_TOLD),
        trees=True,
    )


def _submits(act: Act, name: str) -> bool:
    return act.kind == "submit" and act.job == name


def _acts(rng: random.Random, at_s: float, jobs: list[str], swarm: Swarm) -> list[Act]:
    def later(kind: str, job: str = _NAME, work: int = 0) -> Act:
        longest_s = rng.choice((_AT_ONCE_S, _LATE_S))
        return Act(round(at_s + longest_s * rng.random(), 1), kind, job, work)

    # How many may go on at a time. Its command is interrupted once these are sent.
    at_first = rng.choice((0, 0, 1, 2))
    found = [Act(at_s, "backfill", _NAME, at_first)]
    if rng.random() < (_GOES_ON if at_first else _SENT_AGAIN):
        found.append(later("backfill", work=rng.choice((0, 0, 1, 2))))
    if rng.random() < _CANCELLED and swarm.has("cancel_backfill"):
        found.append(later("cancel_backfill"))
        if rng.random() < _GOES_ON:
            found.append(later("backfill"))
    if rng.random() < _RETRIED and swarm.has("retry_backfill"):
        found += [later("retry_backfill"), later("retry_backfill")]
    for kind in _OF_ONE_JOB:
        if rng.random() < _ONE_JOB and swarm.has(kind):
            work = rng.choice((0, 4)) if kind == "rerun_tree" else 0
            found.append(later(kind, rng.choice(jobs), work))
    return found
