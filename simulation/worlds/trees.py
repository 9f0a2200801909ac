"""Trees as one thing: their end is told, and people cancel them and run again what died of them."""

import random
from collections.abc import Mapping
from dataclasses import replace

from simulation.worlds.plan import Act, Ending, Job, Plan

_TOLD = 0.7  # of the pipelines that tell of ends
_CANCELLED = 0.25
_RETRIED = 0.5
_LATE_S = 2_400.0


def with_trees(rng: random.Random, plan: Plan) -> Plan:
    """The plan; or, where ends are told, one that tells of trees and acts on them."""
    if not plan.clean_slots or not plan.notify or rng.random() >= _TOLD:
        return plan
    roots = [job.name for job in plan.jobs if "." not in job.name]
    acts = list(plan.acts)
    for root in roots:
        if rng.random() < _CANCELLED:
            acts.append(Act(round(_LATE_S * rng.random() ** 2, 1), "cancel_tree", root))
        if rng.random() < _RETRIED:
            at_s = _LATE_S * rng.random()
            acts += [
                Act(round(at_s, 1), "retry_tree", root),
                Act(round(at_s + 900 * rng.random(), 1), "retry_tree", root),
            ]
    return replace(plan, trees=True, acts=tuple(sorted(acts, key=lambda act: act.at_s)))


def _plan(*acts: Act, endings: tuple[Ending, ...] = (), poison: bool = False) -> Plan:
    root = Job("j0", work_s=9.0, files=1, fan_out=2)
    member = Job("j0.1", work_s=9.0, files=1, endings=endings, poison=poison)
    acts = (Act(1.0, "submit", "j0"), *acts)
    return Plan(
        jobs=(root, member),
        acts=acts,
        faults=(),
        clean_slots=10,
        max_attempts=1,
        notify="sns",
        trees=True,
    )


_FAILS = (Ending("fails", 2.0),)


def _backfill(*acts: Act, endings: tuple[Ending, ...] = (), at_first: int = 0) -> Plan:
    first = Job("days/a", work_s=9.0, files=1, fan_out=1)
    second = Job("days/b", work_s=9.0, files=1, fan_out=1, endings=endings)
    acts = (Act(1.0, "backfill", "days", work=at_first), *acts)
    return replace(_plan(), jobs=(first, second), acts=acts)


TREE_WORLDS: Mapping[str, Plan] = {
    "a tree's end is told": _plan(),
    "a tree's end is told, and once more when its dead job was run again": _plan(
        Act(1_200.0, "retry_tree", "j0"), endings=_FAILS
    ),
    "a tree's dead job is run again twice": _plan(
        Act(1_200.0, "retry_tree", "j0"),
        Act(2_400.0, "retry_tree", "j0"),
        endings=(*_FAILS, *_FAILS),
    ),
    "a tree dies again and again": _plan(
        Act(1_200.0, "retry_tree", "j0"),
        Act(1_300.0, "retry_tree", "j0"),
        Act(3_000.0, "retry_tree", "j0"),
        endings=_FAILS,
        poison=True,
    ),
    "a tree is cancelled, and its jobs are run again": _plan(
        Act(150.0, "cancel_tree", "j0"), Act(1_500.0, "retry_tree", "j0")
    ),
    "a member of a tree is corrected when its end was told": _plan(
        Act(1_200.0, "correct", "j0.1", work=1), endings=_FAILS
    ),
    "a backfill's end is told": _backfill(),
    "a backfill is interrupted, and goes on": _backfill(
        Act(1_200.0, "backfill", "days"), at_first=1
    ),
    "a backfill is interrupted, and does not go on": _backfill(at_first=1),
    "a backfill is interrupted, and cancelled": _backfill(
        Act(1_200.0, "cancel_backfill", "days"), at_first=1
    ),
    "a backfill is cancelled, and begins again": _backfill(
        Act(5.0, "cancel_backfill", "days"), Act(1_500.0, "backfill", "days")
    ),
    "a backfill's dead job is run again": _backfill(
        Act(1_200.0, "retry_backfill", "days"), endings=_FAILS
    ),
    "a backfill is sent again for its dead job": _backfill(
        Act(1_200.0, "backfill", "days"), endings=_FAILS
    ),
    "a backfill sends more when its end was told": _backfill(
        Act(1_200.0, "backfill", "days"), Act(2_400.0, "backfill", "days"), at_first=1
    ),
}
