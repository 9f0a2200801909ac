"""What some worlds have: a table of features, each with what may happen then."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from longhaul.core.request import MAX_TIMEOUT_S
from simulation.worlds.endings import EMR_FAULTS, LAMBDA_FAULTS, PLATFORM_FAULTS
from simulation.worlds.governed import DENIED, ROLES
from simulation.worlds.occasions import Occasion, Range, is_pipeline, with_acts
from simulation.worlds.plan import EMR, TINY, Act, Ending, Job, Plan
from simulation.worlds.stages import CLEAN, MAIN
from simulation.worlds.swarm import Swarm

_HOUR_S = 3_600.0
_SUBMIT = ("submit",)
_LATER: Range = (0.0, 2_400.0)
_SOON: Range = (0.0, 900.0)
_AT_FIRST: Range = (0.0, 300.0)
_HOURS: Range = (60.0, 60.0 + 4 * _HOUR_S)

Add = Callable[[random.Random, Plan], Plan]
"""From a source of randomness and a plan to the plan with a feature, or as it is if none fits."""


def _each(change: Callable[[random.Random, Plan, Job], Job]) -> Add:
    """Change the jobs of a plan one by one."""

    def add(rng: random.Random, plan: Plan) -> Plan:
        return replace(plan, jobs=tuple(change(rng, plan, job) for job in plan.jobs))

    return add


@dataclass(frozen=True)
class Feature:
    """What some worlds have.

    Attributes:
        chance: The part of all worlds that have it, or how it follows from the plan.
        add: From its source of randomness and a plan to the plan with it.
        acts: What may happen then.
        kind: A name in swarms, half of which leave it out; empty: none does.
    """

    chance: float | Callable[[Plan], float]
    add: Add = lambda _rng, plan: plan
    acts: Sequence[Occasion] = ()
    kind: str = ""

    def to(self, rng: random.Random, plan: Plan) -> Plan:
        """The plan with it, and with what may happen then."""
        return with_acts(rng, self.add(rng, plan), self.acts)


_NO_ROOM = Occasion(
    "outage",
    1.0,
    seconds=(0.0, 600.0),
    for_s=(_HOUR_S / 2, 20 * _HOUR_S),
    services=("capacity", "rights"),
)
"""A long time without room or right for tasks."""

DENIALS = (
    Occasion(
        "outage",
        1.0,
        seconds=_AT_FIRST,
        for_s=_HOURS,
        services=(*DENIED * 6, *(f"{each}@{role}" for each in DENIED for role in ROLES)),
    ),
)
"""A policy denies a service for minutes or hours, to all or to one role, then heals."""


REFUSED_ROLES = tuple(
    Occasion("outage", 1.0, seconds=_AT_FIRST, for_s=_HOURS, services=services, fits=fits)
    for services, fits in (
        ((f"rights:{MAIN}", f"rights:{CLEAN}"), is_pipeline),
        ((f"rights:{MAIN}", "rights"), lambda plan, _job: not plan.clean_slots),
    )
)
"""A role that no engine takes for a while: of one stage, or of all."""


def _with_no_beats(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a time without beats, in which its first job works.

    It begins when most jobs have been sent.
    """
    for_s = _HOUR_S * rng.choices((0.5, 3.0, 12.0, 30.0), (55, 28, 12, 5))[0]
    at_s = round(600.0 * rng.random(), 1)
    first = plan.jobs[0]
    if not any(each.kind == "endless" for each in first.endings):
        work_s = round(for_s * (0.5 + rng.random()), 1)
        timeout_s = round(2 * work_s + 6 * _HOUR_S)
        first = replace(first, work_s=work_s, timeout_s=timeout_s, stall_timeout_s=None)
    plan = plan.plus(Act(at_s, "outage", for_s=for_s, service="heartbeat"))
    return replace(plan, jobs=(first, *plan.jobs[1:]))


def _with_long_wait(rng: random.Random, plan: Plan) -> Plan:
    """The plan; if it has two jobs, one has the only slot for longer than SQS keeps a message."""
    if len(plan.jobs) < 2 or plan.clean_slots:
        return plan
    retention_s = rng.choice((24, 36, 60)) * _HOUR_S
    work_s = round(retention_s * (0.5 + rng.random()))
    holder = replace(
        plan.jobs[0],
        work_s=work_s,
        timeout_s=min(MAX_TIMEOUT_S, 2 * work_s),
        stall_timeout_s=None,
        endings=(),
    )
    return replace(
        plan,
        jobs=(holder, *plan.jobs[1:]),
        acts=(Act(0.5, "submit", holder.name), *plan.acts),
        slots=1,
        retention_s=round(retention_s),
        # Renewed after a few receives, hundreds of times in such a wait, the copies of sends whose
        # answers are lost would multiply without end.
        renew_receives=Plan.renew_receives,
    )


def _with_retirement(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a stage that is retired, mostly while jobs of it run or wait.

    Brought back only the first stage is: what would have followed into another is not sent later.
    """
    if plan.shape:
        return plan
    stage = rng.choice((MAIN, CLEAN)) if plan.clean_slots else MAIN
    begin_s = min(act.at_s for act in plan.acts)
    life_s = (120 + plan.jobs[0].work_s) * (2.5 if stage == CLEAN else 1)
    for_s = rng.choices((0.0, 60.0, 1_800.0, 50_000.0), (30, 30, 30, 10))[0]
    is_taken_out = stage == CLEAN or not for_s or rng.random() < 0.5
    at_s = round(begin_s + life_s * 1.2 * rng.random(), 1)
    return plan.plus(Act(at_s, "retire", work=int(is_taken_out), for_s=for_s, service=stage))


_LONGEST_ON_LAMBDA_S = 600.0  # what fits an invocation, with all around it
_LONGEST_TIMEOUT_S = 840  # a job that asks for more runs on Fargate


def _tiny(rng: random.Random, plan: Plan, job: Job) -> Job:
    """The job, of the size `tiny` if it is short. EMR Serverless has no such size."""
    if job.engine or job.work_s > _LONGEST_ON_LAMBDA_S or rng.random() >= 0.8:
        return job
    if (job.timeout_s or 0) > _LONGEST_TIMEOUT_S and rng.random() >= 0.3:
        return job
    endings = _endings_of(LAMBDA_FAULTS, rng, plan, job, PLATFORM_FAULTS)
    return replace(job, size=TINY, endings=endings)


def _on_emr(rng: random.Random, plan: Plan, job: Job) -> Job:
    """The job on EMR Serverless; not if it is `tiny`, or writes to a table, as no driver can."""
    if rng.random() >= 0.75 or job.size or job.table:
        return job
    endings = _endings_of(EMR_FAULTS, rng, plan, job, PLATFORM_FAULTS | LAMBDA_FAULTS)
    return replace(job, engine=EMR, endings=endings)


def _endings_of(
    faults: frozenset[str], rng: random.Random, plan: Plan, job: Job, others: frozenset[str]
) -> tuple[Ending, ...]:
    """The job's endings, of which some become the one that its engine alone has."""
    (kind,) = faults
    may_come = Swarm.of(plan).has(kind)
    return tuple(
        replace(each, kind=kind)
        if each.kind in others and may_come and rng.random() < 0.5
        else each
        for each in job.endings
    )


_CANCEL_OF_JOB_RUN = Occasion(
    "cancel_job_run",
    0.08,
    _SUBMIT,
    "roots",
    (0.0, 156.0),
    (0.0, 1.3),
    fits=lambda _plan, job: job.engine == EMR,
)


def _with_tables(rng: random.Random, plan: Plan) -> Plan:
    """The plan with jobs whose outputs are tables, and others who write to them."""
    plan = _each(_into_table)(rng, plan)
    return replace(
        plan, mix=replace(plan.mix, writers=rng.choices((0.0, 0.02, 0.1), (40, 35, 25))[0])
    )


def _into_table(rng: random.Random, _plan: Plan, job: Job) -> Job:
    if job.compacts or job.engine or rng.random() >= 0.9:
        return job
    return replace(
        job,
        output="",
        table="events" if rng.random() < 0.8 else re.sub(r"\W", "_", f"events_{job.name}"),
        mode="append" if rng.random() < 0.6 else "overwrite",
    )


_GLUE_IS_OUT = Occasion("outage", 0.1, seconds=_AT_FIRST, for_s=(5.0, 905.0), services=("glue",))


def _with_parts(rng: random.Random, plan: Plan) -> Plan:
    plan = _each(_in_parts)(rng, plan)
    return replace(plan, kept_s=7_200 if rng.random() < 0.4 else 0)


def _in_parts(rng: random.Random, _plan: Plan, job: Job) -> Job:
    if rng.random() >= 0.6:
        return job
    # One that stores something new and hangs, each time, is resumed a hundred times: for days.
    is_poison = job.poison and bool(job.endings) and job.endings[-1].kind != "hangs"
    return replace(
        job,
        parts=rng.randint(1, 4),
        saves=rng.choice(("", "datasets", "checkpoint", "folder")),
        poison=is_poison,
    )


_CHANGES = tuple(
    Occasion(
        "change",
        0.35,
        _SUBMIT,
        about,
        (60.0, 210.0),
        (0.0, 2.5),
        services=("code", "inputs"),
        fits=lambda _plan, job: bool(job.parts),
    )
    for about in ("roots", "members")
)


def _with_trees(_rng: random.Random, plan: Plan) -> Plan:
    """The plan; where a pipeline tells of ends, one that tells of trees."""
    return replace(plan, trees=bool(plan.clean_slots and plan.notify))


def _has_trees(plan: Plan, _job: Job) -> bool:
    return plan.trees


def _is_short(_plan: Plan, job: Job) -> bool:
    return job.work_s <= _HOUR_S


_ACTS_ON_TREES = (
    Occasion("cancel_tree", 0.2, _SUBMIT, "roots", _LATER, power=2, fits=_has_trees),
    Occasion("retry_tree", 0.4, _SUBMIT, "roots", _LATER, fits=_has_trees),
    Occasion("retry_tree", 0.8, ("retry_tree",), "", _SOON),
)

_WORKS = (0, 0, 4, 5)
_LIVES = (1.0, 4.0)

_RERUNS = (
    Occasion("rerun_tree", 0.4, _SUBMIT, "roots", _LATER, _LIVES, 2, _WORKS, fits=_is_short),
    Occasion("rerun", 0.3, _SUBMIT, "roots", _LATER, _LIVES, 2, _WORKS, fits=_is_short),
    Occasion("rerun", 0.15, _SUBMIT, "members", _LATER, _LIVES, 2, fits=_is_short),
    # Now and then two at once, or too early.
    Occasion("rerun_tree", 0.2, ("rerun_tree", "rerun"), "", (0.0, 3.0)),
    Occasion("rerun", 0.2, ("rerun",), "", _LATER),
)
"""People run jobs again: a whole tree, or a member, an opener or a join of it."""


_VERSIONS = range(1, 100)

ACTS_ON_SECRETS = (
    Occasion("set_secret", 0.8, seconds=_SOON, works=_VERSIONS),
    Occasion("set_secret", 0.6, ("set_secret",), seconds=_SOON, works=_VERSIONS),
    Occasion("delete_secret", 0.25, seconds=_SOON, power=2),
    Occasion("set_secret", 1.0, ("delete_secret",), "", _HOURS, power=3, works=_VERSIONS),
    Occasion(
        "outage",
        0.35,
        seconds=_SOON,
        power=2,
        for_s=_HOURS,
        services=(
            "secretsmanager",
            *(f"denied:secretsmanager{of}" for of in ("", "@task", "@driver", "@tiny")),
        ),
    ),
)
"""It rotates, somebody deletes it and makes it again, a policy denies it to one role or all, or
Secrets Manager is out."""


def _with_backfill(rng: random.Random, plan: Plan) -> Plan:
    """The plan; or, where its stage is a plain one, with a backfill that sends its first jobs.

    It takes the place of their first submissions: what else happens to them stays, and worlds with
    one cost little more. `work` says how many of its jobs may go on at a time. Its command is
    interrupted once these are sent.
    """
    firsts = {act.job: act for act in reversed(plan.acts) if act.kind == "submit"}
    # Jobs that are sent in another way stay as they are.
    sent = [job for job in plan.jobs if job.name in firsts][:4]
    if plan.clean_slots or not sent:
        return plan
    names = {job.name: f"days/{n}" for n, job in enumerate(sent)}
    jobs = [replace(job, name=names[job.name], named=True) for job in sent]
    jobs += [Job(f"days/{n}", work_s=9.0, files=1) for n in range(len(jobs), 2)]
    others = list(plan.acts)
    for name in names:
        others.remove(firsts[name])
    acts = [replace(act, job=names.get(act.job, act.job)) for act in others]
    begin_s = min(firsts[name].at_s for name in names)
    found = replace(
        plan,
        jobs=(*jobs, *(job for job in plan.jobs if job.name not in names)),
        acts=tuple(acts),
        notify=plan.notify or rng.choice(("sns", "sqs", "events")),
        trees=True,
    )
    return found.plus(Act(begin_s, "backfill", "days", rng.choice((0, 0, 1, 2))))


_AT_ONCE: Range = (0.0, 3.0)
_FIRST = ("backfill",)

_ACTS_ON_BACKFILLS = (
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


def _with_few_launches(rng: random.Random, plan: Plan) -> Plan:
    """A bucket of RunTask that a few jobs empty, as 120 at once do that of an account."""
    return replace(
        plan, launches_per_s=rng.choice((0.5, 1.0, 5.0)), launches_at_once=rng.randint(1, 3)
    )


FEATURES: Mapping[str, Feature] = {
    "no room": Feature(0.04, acts=(_NO_ROOM,)),
    "no beats": Feature(0.04, _with_no_beats),
    "long wait": Feature(0.05, _with_long_wait),
    "retirement": Feature(0.08, _with_retirement),
    "tiny": Feature(0.25, _each(_tiny), kind=TINY),
    "tables": Feature(0.25, _with_tables, (_GLUE_IS_OUT,), kind="tables"),
    "outputs beside": Feature(
        0.12, _each(lambda rng, _plan, job: replace(job, beside=rng.random() < 0.6))
    ),
    "late inputs": Feature(
        0.08, _each(lambda rng, _plan, job: replace(job, late_s=rng.choice((0.0, 5.0, 20.0, 90.0))))
    ),
    "parts": Feature(0.4, _with_parts, _CHANGES, kind="parts"),
    # Some plans have no job for it: they are about one in ten. No swarm leaves it out.
    "emr serverless": Feature(0.15, _each(_on_emr), (_CANCEL_OF_JOB_RUN,)),
    "denial": Feature(0.04, acts=DENIALS),
    "trees": Feature(0.7, _with_trees, _ACTS_ON_TREES),
    "reruns": Feature(lambda plan: 0.5 if plan.trees else 0.12, acts=_RERUNS, kind="rerun_tree"),
    "secrets": Feature(
        0.15, lambda _rng, plan: replace(plan, secret=True), ACTS_ON_SECRETS, kind="secret"
    ),
    "refused role": Feature(0.08, acts=REFUSED_ROLES, kind="refused role"),
    "backfill": Feature(0.1, _with_backfill, _ACTS_ON_BACKFILLS, kind="backfill"),
    "launches": Feature(0.1, _with_few_launches),
}
"""By the name of its source of randomness: a new feature changes no draw of others."""
