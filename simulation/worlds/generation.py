"""Plans drawn from seeds.

In most worlds about half of all kinds of acts, endings and faults are off (see `swarm`). Most have
a few jobs and a few faults. Some have bursts, jobs of days, or faults everywhere.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from simulation.worlds.cost import USUAL, cost_of
from simulation.worlds.endings import OWN_FAULTS, PLATFORM_FAULTS
from simulation.worlds.faults import ALL_KINDS
from simulation.worlds.features import FEATURES, Feature
from simulation.worlds.files import COUNTS
from simulation.worlds.occasions import OCCASIONS, OF_ROOTS, Occasion, with_acts
from simulation.worlds.plan import Act, Ending, Job, Mix, Plan
from simulation.worlds.randomness import rng_of, unit
from simulation.worlds.stages import SUM, TOTAL, members_of
from simulation.worlds.swarm import Swarm
from simulation.worlds.systematic import FAMILIES

T = TypeVar("T")

_HOUR_S = 3_600.0
_SMALL_SKEW_S = 30.0
_REPORTS_OFTEN_S = 600
_LONGEST_TIMEOUT_S = 604_800  # the most that a request may ask for
_NEAR = 0.4
_MORE_DRAWS = 3  # of the acts in a swarm, since half of what is drawn is left out
_SWARMS = 0.6
_LONGEST_OUTPUT = 768  # bytes of its key
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
    mix = replace(_mix(rng_of(seed, "mix")), swarm=swarm.is_one)
    near = rng_of(seed, "near")
    if near.random() < _NEAR:
        plan = near_one(near, Plan(seed=seed, mix=mix, notify=_notify(near)))
        return _patient(_with_more(plan, OF_ROOTS))
    plan = Plan(
        seed=seed,
        jobs=jobs,
        mix=mix,
        slots=_pick(rng, (10, 60), (1, 15), (2, 15), (3, 10)),
        spot=rng.random() < 0.2,
        max_attempts=_pick(rng, (3, 50), (1, 20), (2, 25), (5, 5)),
        # 900 receives take days of waiting; a renewal after five is the same.
        renew_receives=_pick(rng, (Plan.renew_receives, 85), (5, 15)),
        notify=_notify(rng_of(seed, "notify")),
    )
    plan = _with(FIRST, plan.plus(*_first_sends(rng, jobs)))
    return _patient(_with(FEATURES, _with_more(plan, OCCASIONS)))


BASES: Sequence[Sequence[Plan]] = [
    [plan for plan in worlds.values() if not plan.faults and cost_of(plan) <= 2 * USUAL]
    for worlds in FAMILIES
]
"""By family the worlds that need no fault at a place of its own."""


def near_one(rng: random.Random, drawn: Plan) -> Plan:
    """A systematic world with the seed and the mix of a drawn one; half of its acts are moved."""
    base = rng.choice(rng.choice(BASES))
    acts = [_moved(rng, act) if rng.random() < 0.5 else act for act in base.acts]
    return replace(
        base,
        seed=drawn.seed,
        mix=drawn.mix,
        faults=None,
        acts=tuple(sorted(acts, key=lambda act: act.at_s)),
        notify=base.notify or drawn.notify,
    )


def _moved(rng: random.Random, act: Act) -> Act:
    if act.kind == "submit":
        return act
    return replace(act, at_s=round(act.at_s * (1 + 0.2 * (2 * rng.random() - 1)), 1))


def _with_more(plan: Plan, occasions: Sequence[Occasion]) -> Plan:
    """The plan with what else may happen: more of it in a swarm, which leaves half of all out."""
    swarm, more = Swarm.of(plan), plan
    for draw in range(_MORE_DRAWS if swarm.is_one else 1):
        more = with_acts(rng_of(plan.seed, f"occasions {draw}"), more, occasions)
    acts = [act for act in more.acts if act in plan.acts or swarm.keeps(act)]
    return replace(plan, acts=tuple(acts))


def _patient(plan: Plan) -> Plan:
    """The plan, without stall timeouts that their reports would not keep.

    A clock's error counts as silence, so minutes of error would look like a stall. And a long job
    of a world reports so rarely that it would emit no short stall timeout.
    """
    rare = tuple(f"{job.name}." for job in plan.jobs if job.work_s > _REPORTS_OFTEN_S)
    named = ("",) if plan.mix.skew_s > _SMALL_SKEW_S else rare
    jobs = tuple(
        replace(job, stall_timeout_s=None) if job.name.startswith(named) else job
        for job in plan.jobs
    )
    return replace(plan, jobs=jobs)


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


def _first_sends(rng: random.Random, jobs: Sequence[Job]) -> list[Act]:
    """The first submission of each job: in bursts all at once."""
    burst = rng.random() < 0.3
    return [
        Act(1.0 if burst else round(1 + 300 * rng.random() ** 2, 1), "submit", job.name)
        for job in jobs
    ]


def _notify(rng: random.Random) -> str:
    """What is told of ends: nothing in most worlds."""
    return _pick(rng, ("", 60), ("sns", 15), ("sqs", 15), ("events", 10))


def _with_compaction(rng: random.Random, plan: Plan) -> Plan:
    """The plan, whose first job compacts an output to which some others append."""
    first = replace(plan.jobs[0], output="log", mode="overwrite", compacts=True)
    others = [
        replace(job, output="log", mode="append") if rng.random() < 0.7 else job
        for job in plan.jobs[1:]
    ]
    return replace(plan, jobs=(first, *others))


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
    members = []
    for job in jobs:
        splits = {name: _few(of_shape) for name in members_of(job)} if shape else {}
        for name in _below(job, shape, splits):
            member = _job(rng, name, round(1 + 600 * rng.random() ** 3, 1), swarm)
            member = _at_limits(rng_of(plan.seed, f"limits of {name}"), member)
            members.append(replace(member, fan_out=splits.get(name)))
    return replace(
        plan,
        jobs=(*jobs, *members),
        acts=tuple(act for act in plan.acts if act.job in names),
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
        completes=_pick(rng, (0.0, 60), (0.1, 25), (0.6, 15)),
        repeats_answers=rng.random() < 0.5,
        # Batches that come late, and receive counts that are not exact.
        deliveries=_pick(rng, (0.0, 65), (0.05, 15), (0.4, 20)),
        counts=_pick(rng, (0.0, 80), (0.3, 20)),
    )


def _pick(rng: random.Random, *weighted: tuple[T, int]) -> T:
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]


FIRST: Mapping[str, Feature] = {
    "compactions": Feature(0.08, _with_compaction),
    "pipeline": Feature(0.35, _with_pipeline),
}


def _with(features: Mapping[str, Feature], plan: Plan) -> Plan:
    """The plan, with those of the features that its seed gives it."""
    swarm = Swarm.of(plan)
    for source, each in features.items():
        rng = rng_of(plan.seed, source)
        chance = each.chance if isinstance(each.chance, float) else each.chance(plan)
        if rng.random() < chance and (not each.kind or swarm.has(each.kind)):
            plan = each.to(rng, plan)
    return plan
