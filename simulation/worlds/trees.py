"""Trees as one thing: their end is told, and people cancel them and run again what died of them."""

from collections.abc import Mapping
from dataclasses import replace

from simulation.worlds.plan import Act, Ending, Fault, Job, Plan


def _plan(
    *acts: Act,
    endings: tuple[Ending, ...] = (),
    poison: bool = False,
    root: tuple[Ending, ...] = (),
    named: bool = True,
) -> Plan:
    first = Job("j0", work_s=9.0, files=1, fan_out=2, endings=root, named=named)
    member = Job("j0.1", work_s=9.0, files=1, endings=endings, poison=poison)
    acts = (Act(1.0, "submit", "j0"), *acts)
    return Plan(
        jobs=(first, member),
        acts=acts,
        faults=(),
        clean_slots=10,
        max_attempts=1,
        notify="sns",
        trees=True,
    )


_FAILS = (Ending("fails", 2.0),)


def _backfill(
    *acts: Act,
    endings: tuple[Ending, ...] = (),
    first: tuple[Ending, ...] = (),
    at_first: int = 0,
) -> Plan:
    one = Job("days/a", work_s=9.0, files=1, fan_out=1, endings=first)
    second = Job("days/b", work_s=9.0, files=1, fan_out=1, endings=endings)
    acts = (Act(1.0, "backfill", "days", work=at_first), *acts)
    return replace(_plan(), jobs=(one, second), acts=acts)


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
    "a tree is run again when its end was told": _plan(Act(1_200.0, "rerun_tree", "j0")),
    "a tree is run again and again, and twice at once": _plan(
        Act(1_200.0, "rerun_tree", "j0"),
        Act(1_200.1, "rerun_tree", "j0"),
        Act(1_300.0, "rerun_tree", "j0"),
        Act(2_400.0, "rerun_tree", "j0"),
    ),
    "a tree is run again at once with other parameters": _plan(
        Act(1_200.0, "rerun_tree", "j0", work=1),
        Act(1_200.1, "rerun_tree", "j0", work=2),
        Act(1_202.0, "rerun_tree", "j0", work=3),
    ),
    "a tree is run again before it has ended": _plan(
        Act(60.0, "pause", "j0.0", for_s=3_000.0),
        Act(900.0, "rerun_tree", "j0"),
        Act(4_500.0, "rerun_tree", "j0"),
    ),
    "a tree is run again before its rerun has ended": _plan(
        Act(1_200.0, "rerun_tree", "j0"),
        Act(1_201.0, "pause", "j0.0", for_s=3_000.0),
        Act(1_800.0, "rerun_tree", "j0"),
        Act(6_000.0, "rerun_tree", "j0"),
    ),
    "a tree is run again whose member has died": _plan(
        Act(1_200.0, "rerun_tree", "j0"),
        Act(2_400.0, "retry_tree", "j0"),
        endings=_FAILS,
    ),
    "a tree is run again, and its rerun corrected and cancelled": _plan(
        Act(1_200.0, "rerun_tree", "j0"),
        Act(1_205.0, "cancel_tree", "j0"),
        Act(1_300.0, "correct", "j0", work=1),
        Act(2_400.0, "rerun_tree", "j0"),
    ),
    "a member runs again, its join, and the member once more": _plan(
        Act(1_200.0, "rerun", "j0.1"),
        Act(1_800.0, "rerun", "j0.sum"),
        Act(2_400.0, "rerun", "j0.1"),
        Act(2_400.0, "rerun", "j0.0"),
    ),
    "a member runs again while its join runs": _plan(
        Act(230.0, "rerun", "j0.1"), Act(260.0, "rerun", "j0.0"), Act(1_200.0, "rerun_tree", "j0")
    ),
    "an append runs again": replace(
        _plan(Act(600.0, "rerun", "j0"), Act(601.0, "submit", "j1"), Act(1_200.0, "rerun", "j0")),
        jobs=tuple(
            Job(name, work_s=9.0, files=2, output="log", mode="append") for name in ("j0", "j1")
        ),
        clean_slots=0,
        trees=False,
    ),
    "a tree whose root has died is run again": _plan(
        Act(1_200.0, "rerun_tree", "j0"), root=(Ending("permanent", 2.0),)
    ),
    "a tree whose root has died, and has no id of its sender's, is run again": _plan(
        Act(1_200.0, "rerun_tree", "j0"), root=(Ending("permanent", 2.0),), named=False
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
    # The job that died waits for a slot, and the other one ends.
    "a backfill is sent again for its dead job, and for more": replace(
        _backfill(
            Act(1_200.0, "backfill", "days"),
            Act(1_230.0, "pause", "days/a", for_s=1_800.0),
            at_first=1,
            first=_FAILS,
        ),
        clean_slots=0,
        slots=1,
    ),
    "a backfill sends more when its end was told": _backfill(
        Act(1_200.0, "backfill", "days"), Act(2_400.0, "backfill", "days"), at_first=1
    ),
    "a cancelled backfill is told, goes on and is interrupted": _backfill(
        Act(5.0, "cancel_backfill", "days"), Act(1_500.0, "backfill", "days", work=1)
    ),
    # Its jobs were noted, and cancelled before they were sent.
    "a backfill dies as it sends, is cancelled, goes on, and a dispatcher is slow": replace(
        _backfill(Act(2.0, "cancel_backfill", "days"), Act(887.3, "backfill", "days")),
        clean_slots=0,
        slots=1,
        faults=(
            Fault("backfill.0", 4, "crash/before"),
            Fault("dispatcher@m1#1", 4, "slow/40"),
            Fault("dispatcher@m1#1", 10, "unavailable/after/all"),
        ),
    ),
    "a backfill is interrupted, and goes on when its stage was taken out": replace(
        _backfill(
            Act(200.0, "retire", work=1, service="main"),
            Act(1_200.0, "backfill", "days"),
            at_first=1,
        ),
        clean_slots=0,
    ),
}
