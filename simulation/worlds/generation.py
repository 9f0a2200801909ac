"""Plans drawn from seeds.

In most worlds about half of all kinds of acts, endings and faults are off (see `swarm`). Most have
a few jobs and a few faults. Some have bursts, jobs of days, or faults everywhere.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple, TypeVar

from simulation.worlds.backfills import with_backfill
from simulation.worlds.cost import USUAL, cost_of
from simulation.worlds.emr import with_emr
from simulation.worlds.endings import OWN_FAULTS, PLATFORM_FAULTS
from simulation.worlds.faults import ALL_KINDS
from simulation.worlds.files import COUNTS
from simulation.worlds.governed import (
    with_denial,
    with_long_outage,
    with_long_wait,
    with_refused_role,
)
from simulation.worlds.near import near_one
from simulation.worlds.parts import with_parts
from simulation.worlds.plan import TINY, Act, Ending, Job, Mix, Plan
from simulation.worlds.planned import with_planned
from simulation.worlds.randomness import rng_of, unit
from simulation.worlds.secrets import with_secrets
from simulation.worlds.stages import SUM, TOTAL, members_of
from simulation.worlds.swarm import Swarm
from simulation.worlds.tables import with_tables
from simulation.worlds.tiny import with_tiny
from simulation.worlds.trees import with_reruns, with_trees
from simulation.worlds.upheavals import expiries, with_retirement

T = TypeVar("T")

_SERVICES = ("dynamodb", "sqs", "s3", "stepfunctions", "ecs")
_HOUR_S = 3_600.0
_SMALL_SKEW_S = 30.0
_REPORTS_OFTEN_S = 600
_LONGEST_TIMEOUT_S = 604_800  # the most that a request may ask for
_NEAR = 0.4
_HOSTILE = 0.06
_LOST = 0.03
_FORGED = 0.3  # of pipelines
_LONG_OUTAGE = 0.02
_SWARMS = 0.6
_LONGEST_OUTPUT = 768  # bytes of its key
_AFTER_CANCEL = 0.5
_CANCEL_AGAIN = 0.4
_DOUBLED = 0.06
_MISTAKES = 0.06
_ONE_ROOT = 0.7  # of pipelines; others have two, since each becomes several jobs
_NEXT_DRAW = 1 << 40  # beyond the seeds of any soak
_OWN, _PLATFORM = sorted(OWN_FAULTS), sorted(PLATFORM_FAULTS)


def plan_of(seed: int) -> Plan:
    """The world of a seed; one that costs more than usual is as much rarer as it costs more."""
    plans = map(_drawn, count(seed, _NEXT_DRAW))
    return next(plan for plan in plans if unit(plan.seed, "cost") * cost_of(plan) < USUAL)


def _drawn(seed: int) -> Plan:
    rng = rng_of(seed, "plan")
    swarm = Swarm(seed, rng_of(seed, "swarm").random() < _SWARMS)
    jobs = tuple(_job(rng, f"j{number}", _work_s(rng), swarm) for number in range(_jobs(rng)))
    mix = _with_completions(rng_of(seed, "completions"), _mix(rng))
    mix = _with_inexactness(rng_of(seed, "inexactness"), mix)
    mix = replace(mix, swarm=swarm.is_one)
    near = rng_of(seed, "near")
    if near.random() < _NEAR:
        return _near(near, Plan(seed=seed, mix=mix, notify=_notify(near)), swarm)
    plan = Plan(
        seed=seed,
        jobs=jobs,
        acts=_in_order(_acts(rng, jobs, swarm)),
        mix=mix,
        slots=_pick(rng, (10, 60), (1, 15), (2, 15), (3, 10)),
        spot=rng.random() < 0.2,
        max_attempts=_pick(rng, (3, 50), (1, 20), (2, 25), (5, 5)),
        # 900 receives take days of waiting; a renewal after five is the same.
        renew_receives=_pick(rng, (Plan.renew_receives, 85), (5, 15)),
    )
    plan = replace(plan, notify=_notify(rng_of(seed, "notify")))
    plan = _with(FIRST, plan)
    more = [act for draw in range(swarm.draws) for act in _more_of_world(draw, plan)]
    first = {act.job: act for act in reversed(plan.acts) if act.kind == "submit"}.values()
    acts = [act for act in [*plan.acts, *more] if swarm.keeps(act, [*first])]
    plan = _with(FEATURES, replace(plan, acts=_in_order(acts)))
    return replace(plan, jobs=_patient(plan.jobs, plan.mix))


def _with_few_launches(rng: random.Random, plan: Plan) -> Plan:
    """A bucket of RunTask that a few jobs empty, as 120 at once do that of an account."""
    return replace(
        plan, launches_per_s=rng.choice((0.5, 1.0, 5.0)), launches_at_once=rng.randint(1, 3)
    )


def _near(rng: random.Random, plan: Plan, swarm: Swarm) -> Plan:
    """A systematic world, and what else happens to its jobs."""
    plan = near_one(rng, plan)
    begun_s = {act.job: act.at_s for act in reversed(plan.acts) if act.kind == "submit"}
    more = [
        act
        for job in plan.jobs
        if job.name in begun_s
        for _ in range(swarm.draws)
        for act in _more(rng, job, begun_s[job.name])
        if swarm.keeps(act, ())
    ]
    return replace(plan, jobs=_patient(plan.jobs, plan.mix), acts=_in_order([*plan.acts, *more]))


def _patient(jobs: tuple[Job, ...], mix: Mix) -> tuple[Job, ...]:
    """The jobs, without stall timeouts that their reports would not keep.

    A clock's error counts as silence, so minutes of error would look like a stall. And a long job
    of a world reports so rarely that it would emit no short stall timeout.
    """
    rare = tuple(f"{job.name}." for job in jobs if job.work_s > _REPORTS_OFTEN_S)
    named = ("",) if mix.skew_s > _SMALL_SKEW_S else rare
    return tuple(
        replace(job, stall_timeout_s=None) if job.name.startswith(named) else job for job in jobs
    )


def _more_of_world(draw: int, plan: Plan) -> Iterator[Act]:
    """Acts that are drawn when jobs and stages are known; each kind from a source of its own."""
    for occasion in OCCASIONS:
        rng = rng_of(plan.seed, f"{occasion.source}{draw or ''}")
        if occasion.chance is None or rng.random() < occasion.chance:
            yield from occasion.acts(rng, plan)


def _jobs(rng: random.Random) -> int:
    low, high = _pick(rng, ((1, 1), 58), ((2, 3), 36), ((4, 7), 5), ((10, 18), 1))
    return rng.randint(low, high)


def _job(rng: random.Random, name: str, work_s: float, swarm: Swarm) -> Job:
    endings: list[Ending] = []
    poison = False
    if rng.random() < 0.45:
        kinds = [
            rng.choice(swarm.some(_OWN if rng.random() < 0.5 else _PLATFORM))
            for _ in range(rng.randint(1, 3))
        ]
        if rng.random() < 0.15:
            kinds = [rng.choice(("dies_after_commit", "dies_after_commit", "uploads_end"))]
        endings = [Ending(kind, round(rng.random() * min(work_s, 2_000.0), 1)) for kind in kinds]
        poison = kinds[-1] in OWN_FAULTS and rng.random() < 0.4
    endless = any(each.kind == "endless" for each in endings)
    return Job(
        name=name,
        work_s=work_s,
        named=rng.random() < 0.8,
        endings=tuple(endings),
        poison=poison,
        output="shared" if rng.random() < 0.1 else "",
        mode="append" if rng.random() < 0.15 else "overwrite",
        timeout_s=round(work_s * 1.5) + 600
        if endless
        else min(_LONGEST_TIMEOUT_S, max(21_600, round(2 * work_s)))
        if work_s > _HOUR_S
        else None,
        stall_timeout_s=_pick(rng, (None, 70), (120, 15), (1_800, 15))
        if work_s < _HOUR_S
        else None,
        max_attempts=_pick(rng, (None, 80), (2, 20)),
        files=rng.choice(COUNTS),
    )


def _work_s(rng: random.Random) -> float:
    low, high = _pick(
        rng,
        ((1.0, 60.0), 4_500),
        ((60.0, _HOUR_S), 900),
        ((_HOUR_S, 8 * _HOUR_S), 90),
        ((11 * _HOUR_S, 30 * _HOUR_S), 60),
        ((48 * _HOUR_S, 120 * _HOUR_S), 1),
    )
    return round(low * math.pow(high / low, rng.random()), 1)


def _acts(rng: random.Random, jobs: Sequence[Job], swarm: Swarm) -> list[Act]:
    burst = rng.random() < 0.3
    acts = []
    for job in jobs:
        at_s = 1.0 if burst else round(1 + 300 * rng.random() ** 2, 1)
        acts.append(Act(at_s, "submit", job.name))
        for _ in range(swarm.draws):
            acts += _more(rng, job, at_s)
    for _ in range(swarm.draws):
        acts += _rarely(rng)
    return acts


def _rarely(rng: random.Random) -> list[Act]:
    """What happens to no job in particular."""
    acts = []
    if rng.random() < 0.05:
        acts.append(Act(_soon(rng), "submit_invalid", work=rng.choice((0, 1, 3))))
    if rng.random() < 0.12:
        acts.append(
            Act(
                _soon(rng),
                "outage",
                for_s=round(5 + 900 * rng.random() ** 3),
                service=rng.choice(_SERVICES),
            )
        )
    if rng.random() < 0.06:
        acts.append(Act(_soon(rng) + 1_500, "redrive_dead_letters"))
    if rng.random() < 0.03:
        acts.append(Act(_soon(rng), "purge"))
    return acts


def _more(rng: random.Random, job: Job, at_s: float) -> list[Act]:
    """What else happens to a job."""
    life_s = job.work_s + 120
    found = []

    def maybe(chance: float, kind: str, work: int = 0, later_s: float = 0.0) -> None:
        if rng.random() < chance:
            found.append(
                Act(round(at_s + later_s + 1.3 * life_s * rng.random(), 1), kind, job.name, work)
            )

    maybe(0.10, "submit")  # the same work again
    maybe(0.06, "submit", work=1)  # other work under its key
    maybe(0.06, "submit", work=2, later_s=2_500)  # corrected, when it may be dead
    maybe(0.08, "cancel")
    maybe(0.08, "stop_execution")
    maybe(0.03, "redrive_execution", later_s=60)
    maybe(0.12, "redeliver", work=rng.randrange(4))
    maybe(0.05, "redeliver", work=rng.randrange(4), later_s=life_s)
    return found


def _again(rng: random.Random, plan: Plan) -> list[Act]:
    """Corrections soon after a cancel or a stop.

    A correction of a job that is neither dead nor cancelled does nothing.
    """
    chances = {"cancel": 0.6, "stop_execution": 0.2, "submit": 0.05}
    found = []
    for act in plan.acts:
        if rng.random() < chances.get(act.kind, 0.0):
            at_s = round(act.at_s + 300 * rng.random() ** 2, 1)
            # An emitted request is never repeated to the letter: its author was a job.
            work = 3 if "." in act.job else rng.choice((0, 3))
            found.append(Act(at_s, "correct", act.job, work))
    return found


def _deploys(rng: random.Random, _plan: Plan) -> list[Act]:
    """Settings that allow less for a while."""
    return [Act(_soon(rng), "narrow", for_s=round(30 + 30_000 * rng.random() ** 3))]


def _echoes(rng: random.Random, plan: Plan) -> list[Act]:
    """Messages that come again soon after a cancel, a stop or another submission."""
    return [
        Act(round(act.at_s + 90 * rng.random() ** 2, 1), "redeliver", act.job, rng.randrange(4))
        for act in plan.acts
        if act.kind in ("cancel", "stop_execution", "submit") and rng.random() < 0.15
    ]


def _roll_backs(rng: random.Random, plan: Plan) -> list[Act]:
    """A newer version ran for a while, and wrote more than this one knows."""
    at_s = _soon(rng)
    return [Act(at_s, "roll_back", job.name) for job in plan.jobs]


def _mistakes(rng: random.Random, plan: Plan) -> list[Act]:
    """Producers who send what can never run under the id of a job, before that is sent or after."""
    return [
        Act(round(at_s, 1), "submit_invalid", act.job, work=rng.choice((2, 3)))
        for act in plan.acts
        if act.kind == "submit" and rng.random() < _MISTAKES
        if (at_s := act.at_s + rng.uniform(-20, 60)) > 0
    ]


def _harm(rng: random.Random, plan: Plan) -> list[Act]:
    """Senders who mean harm, and people who delete what is not theirs."""
    found, jobs = list[Act](), plan.jobs
    if rng.random() < _HOSTILE:
        name = rng.choice([job.name for job in jobs if "." not in job.name])
        found.append(Act(_soon(rng), "submit_hostile", name, work=rng.randrange(8)))
    if any("." in job.name for job in jobs) and rng.random() < _FORGED:
        root = rng.choice([job for job in jobs if "." not in job.name])
        at_s = _soon(rng) + root.work_s
        found.append(Act(round(at_s, 1), "submit_forged", root.name, work=rng.randrange(4)))
    if rng.random() < _LONG_OUTAGE:
        service = rng.choice(("sqs", "s3"))
        found.append(Act(_soon(rng), "outage", for_s=round(9_000 * rng.random()), service=service))
    if rng.random() < _LOST:
        found.append(Act(_soon(rng), "lose", rng.choice(jobs).name))
    return found


def _operators(rng: random.Random, plan: Plan) -> list[Act]:
    """Stages that are paused for a while, or have other slots than the deployed."""
    found = []
    for _ in range(rng.randint(1, 2)):
        job, for_s = rng.choice(plan.jobs).name, round(30 + 30_000 * rng.random() ** 3)
        found.append(Act(_soon(rng), "pause", job, for_s=for_s))
        found.append(Act(_soon(rng), "set_slots", job, rng.choice((1, 2, 15)), for_s))
    return found


def _out_of_reach(rng: random.Random, plan: Plan) -> list[Act]:
    """A topic or a bus that is out for a while; outages of queues are drawn anyhow."""
    if plan.notify not in ("sns", "events"):
        return []
    at_s, for_s = _soon(rng), round(5 + 7_200 * rng.random() ** 3)
    return [Act(at_s, "outage", for_s=for_s, service=plan.notify)]


def _notify(rng: random.Random) -> str:
    """What is told of ends: nothing in most worlds."""
    return _pick(rng, ("", 60), ("sns", 15), ("sqs", 15), ("events", 10))


def _with_late_inputs(rng: random.Random, plan: Plan) -> Plan:
    """The plan with jobs that begin before their inputs are there."""
    late = {job.name: rng.choice((0.0, 5.0, 20.0, 90.0)) for job in plan.jobs}
    return replace(plan, jobs=tuple(replace(job, late_s=late[job.name]) for job in plan.jobs))


def _with_outputs_beside(rng: random.Random, plan: Plan) -> Plan:
    """The plan with jobs that write to a prefix beside their output."""
    return replace(plan, jobs=tuple(replace(job, beside=rng.random() < 0.6) for job in plan.jobs))


def _with_compaction(rng: random.Random, plan: Plan) -> Plan:
    """The plan, whose first job compacts an output to which some others append."""
    first = replace(plan.jobs[0], output="log", mode="overwrite", compacts=True)
    others = [
        replace(job, output="log", mode="append") if rng.random() < 0.7 else job
        for job in plan.jobs[1:]
    ]
    return replace(plan, jobs=(first, *others))


def _in_between(rng: random.Random, plan: Plan) -> list[Act]:
    """Requests that come while a cancel takes effect, or twice; a message that is lost."""
    found = []
    for act in plan.acts:
        if act.kind == "cancel" and rng.random() < _AFTER_CANCEL:
            at_s = round(act.at_s + 0.5 + 60 * rng.random() ** 2, 1)
            work = 3 if "." in act.job else rng.choice((0, 3))
            found.append(Act(at_s, "resubmit", act.job, work))
            if rng.random() < _CANCEL_AGAIN:
                found.append(Act(round(at_s + 60 * rng.random() ** 2, 1), "cancel", act.job))
        elif act.kind == "submit" and rng.random() < _DOUBLED:
            found.append(Act(act.at_s, "submit_twice", act.job, act.work))
    for job in plan.jobs:
        if any(each.kind == "uploads_end" for each in job.endings) and rng.random() < 0.5:
            # After the commit; then that turns out to be void.
            begin_s = next((act.at_s for act in plan.acts if act.job == job.name), 0.0)
            at_s = begin_s + 70 + job.work_s + 2_400 * rng.random() ** 2
            found.append(Act(round(at_s, 1), "cancel", job.name))
    if rng.random() < _LOST:
        found.append(Act(0.0, "lose_released"))
    if rng.random() < _LOST and plan.renew_receives < Plan.renew_receives:
        found.append(Act(_soon(rng), "renewer_dies"))
    return found


def _with_pipeline(rng: random.Random, plan: Plan) -> Plan:
    """The plan with stages behind its own, and few jobs, since each becomes several."""
    swarm = Swarm.of(plan)
    roots = 1 if unit(plan.seed, "roots") < _ONE_ROOT else 2
    jobs = [replace(job, fan_out=_fan_out(rng)) for job in plan.jobs[:roots]]
    of_shape = rng_of(plan.seed, "shape")
    shape = _pick(of_shape, ("", 60), ("deep", 20), ("nested", 20))
    if shape:
        jobs = [replace(job, fan_out=_few(of_shape)) for job in jobs]
    names = {job.name for job in jobs}
    acts = [act for act in plan.acts if not act.job or act.job in names]
    members = []
    for job in jobs:
        at_s = next(act.at_s for act in acts if act.job == job.name) + job.work_s + 120
        splits = {name: _few(of_shape) for name in members_of(job)} if shape else {}
        for name in _below(job, shape, splits):
            member = _job(rng, name, round(1 + 600 * rng.random() ** 3, 1), swarm)
            member = _at_limits(rng_of(plan.seed, f"limits of {name}"), member)
            member = replace(member, fan_out=splits.get(name))
            members.append(member)
            for _ in range(swarm.draws):
                acts += _more_of_member(rng, member, at_s)
    if rng.random() < 0.05:
        acts.append(Act(_soon(rng) + 120, "purge", members[0].name))
    return replace(
        plan,
        jobs=(*jobs, *members),
        acts=_in_order(acts),
        largest_group=_largest_group(rng_of(plan.seed, "largest group"), jobs),
        clean_slots=_pick(rng, (10, 50), (1, 20), (2, 30)),
        shape=shape,
    )


def _below(job: Job, shape: str, splits: Mapping[str, int | None]) -> list[str]:
    """The names of the jobs that follow, with what those emit that `splits` has."""
    inner = [
        name for member, size in splits.items() for name in members_of(Job(member, fan_out=size))
    ]
    joins = {
        "": [f"{job.name}.{SUM}"],
        "deep": [f"{job.name}.{SUM}"],
        "nested": [*(f"{member}.{SUM}" for member in splits), f"{job.name}.{TOTAL}"],
    }
    return [*members_of(job), *inner, *joins[shape]]


def _few(rng: random.Random) -> int | None:
    """How many one of several levels emits."""
    return _pick(rng, (None, 22), (0, 17), (1, 30), (2, 25), (3, 6))


def _at_limits(rng: random.Random, member: Job) -> Job:
    """The member; sometimes its output's path is as long as one may be."""
    return replace(member, output_bytes=_LONGEST_OUTPUT) if rng.random() < 0.1 else member


def _largest_group(rng: random.Random, roots: Sequence[Job]) -> int:
    """How many jobs one may emit: in some worlds just what one emits, or one less."""
    largest = max(root.fan_out or 0 for root in roots)
    return max(1, largest - rng.randrange(2)) if rng.random() < 0.2 and largest else 0


def _fan_out(rng: random.Random) -> int | None:
    return _pick(rng, (None, 24), (0, 10), (1, 14), (2, 34), (3, 14), (5, 3), (11, 1))


def _more_of_member(rng: random.Random, member: Job, at_s: float) -> list[Act]:
    """What else happens to a follow-on whose parent may have ended at that time."""
    found = []

    def maybe(chance: float, kind: str, work: int = 0, for_s: float = 400.0) -> None:
        if rng.random() < chance:
            found.append(Act(round(at_s + for_s * rng.random(), 1), kind, member.name, work))

    maybe(0.08, "cancel")
    maybe(0.05, "stop_execution")
    maybe(0.08, "redeliver", work=rng.randrange(4))
    # A correction of a job that is neither dead nor cancelled does nothing.
    maybe(0.15, "correct", work=1, for_s=1_500)
    maybe(0.30, "correct", work=2, for_s=9_000)
    return found


def _in_order(acts: Sequence[Act]) -> tuple[Act, ...]:
    return tuple(sorted(acts, key=lambda act: act.at_s))


def _soon(rng: random.Random) -> float:
    return round(2 + 800 * rng.random() ** 3, 1)


def _mix(rng: random.Random) -> Mix:
    kinds: tuple[str, ...] = ()
    if rng.random() < 0.3:
        kinds = tuple(sorted(rng.sample(ALL_KINDS, rng.randint(1, 4))))
    return Mix(
        calls=_pick(rng, (0.0, 30), (0.005, 25), (0.02, 25), (0.08, 20)),
        kinds=kinds,
        invokes=_pick(rng, (0.0, 40), (0.03, 30), (0.15, 30)),
        events=_pick(rng, (0.0, 50), (0.3, 30), (1.0, 20)),
        launches=_pick(rng, (0.0, 50), (0.1, 30), (0.4, 20)),
        skew_s=_pick(rng, (0.0, 70), (5.0, 15), (120.0, 15)),
        stale_handles=rng.choice(("fail", "work", "ignore", "any")),
        index_lag_s=_pick(rng, (0.0, 60), (1.0, 30), (20.0, 10)),
        reorder=rng.random() < 0.3,
        timeout_stops_task=rng.random() < 0.5,
        short_pages=rng.random() < 0.2,
    )


def _with_completions(rng: random.Random, mix: Mix) -> Mix:
    return replace(
        mix,
        completes=_pick(rng, (0.0, 60), (0.1, 25), (0.6, 15)),
        repeats_answers=rng.random() < 0.5,
    )


def _with_inexactness(rng: random.Random, mix: Mix) -> Mix:
    """Batches that come late, and receive counts that are not exact."""
    return replace(
        mix,
        deliveries=_pick(rng, (0.0, 65), (0.05, 15), (0.4, 20)),
        counts=_pick(rng, (0.0, 80), (0.3, 20)),
    )


def _pick(rng: random.Random, *weighted: tuple[T, int]) -> T:
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]


class Feature(NamedTuple):
    """What some worlds have.

    Attributes:
        source: The name of its source of randomness: a new feature changes no draw of others.
        chance: The part of all worlds that have it, or how it follows from the plan.
        add: From its source and a plan to the plan with it, or that plan where it does not fit.
        kind: A name in swarms, half of which leave it out; empty: none does.
    """

    source: str
    chance: float | Callable[[Plan], float]
    add: Callable[[random.Random, Plan], Plan]
    kind: str = ""


FIRST: Sequence[Feature] = (
    Feature("compactions", 0.08, _with_compaction),
    Feature("pipeline", 0.35, _with_pipeline),
)
FEATURES: Sequence[Feature] = (
    Feature("long outage", 0.08, with_long_outage),
    Feature("long wait", 0.05, with_long_wait),
    Feature("retirement", 0.08, with_retirement),
    Feature("tiny", 0.25, with_tiny, TINY),
    Feature("tables", 0.25, with_tables, "tables"),
    Feature("outputs beside", 0.12, _with_outputs_beside),
    Feature("late inputs", 0.08, _with_late_inputs),
    Feature("parts", 0.4, with_parts, "parts"),
    # Some plans have no job for it: they are about one in ten. No swarm leaves it out.
    Feature("emr serverless", 0.15, with_emr),
    Feature("denial", 0.04, with_denial),
    Feature("planned", 0.12, with_planned, "planned"),
    Feature("trees", 0.7, with_trees),
    Feature("reruns", lambda plan: 0.5 if plan.trees else 0.12, with_reruns, "rerun_tree"),
    Feature("secrets", 0.15, with_secrets, "secret"),
    Feature("refused role", 0.08, with_refused_role, "refused role"),
    Feature("backfill", 0.1, with_backfill, "backfill"),
    Feature("launches", 0.1, _with_few_launches),
    Feature("sidecars", 0.1, lambda _rng, plan: replace(plan, sidecars=True)),
)


class Occasion(NamedTuple):
    """Acts that come to some worlds; without a chance to all, if they find what they need."""

    source: str
    chance: float | None
    acts: Callable[[random.Random, Plan], list[Act]]


OCCASIONS: Sequence[Occasion] = (
    Occasion("again", None, _again),
    Occasion("deploys", 0.05, _deploys),
    Occasion("roll-backs", 0.08, _roll_backs),
    Occasion("expiries", 0.06, expiries),
    Occasion("echoes", None, _echoes),
    Occasion("harm", None, _harm),
    Occasion("mistakes", None, _mistakes),
    Occasion("in between", None, _in_between),
    Occasion("operators", 0.1, _operators),
    Occasion("out of reach", 0.3, _out_of_reach),
)


def _with(features: Sequence[Feature], plan: Plan) -> Plan:
    """The plan, with those of the features that its seed gives it."""
    swarm = Swarm.of(plan)
    for each in features:
        rng = rng_of(plan.seed, each.source)
        chance = each.chance if isinstance(each.chance, float) else each.chance(plan)
        if rng.random() < chance and (not each.kind or swarm.has(each.kind)):
            plan = each.add(rng, plan)
    return plan
