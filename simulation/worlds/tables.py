"""Worlds in which publishers meet at a table, and others who write to it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.plan import Act, Ending, Fault, Job, Plan

WRITERS = ("appends", "compacts", "deletes", "expires", "maintains", "rewrites")
"""What others may do to a table just before it is read or updated.

`expires` leaves the newest snapshot alone; `compacts` makes one file of all, `rewrites` one of
each, and `maintains` expires what was there before that; `deletes` takes the rows of a file away.
"""


def _job(name: str, mode: str = "append", *endings: str, ends_s: float = 9.5) -> Job:
    ends = tuple(Ending(kind, ends_s) for kind in endings)
    return Job(name, work_s=9.0, files=1, table="events", mode=mode, endings=ends)


def _plan(*jobs: Job, at_s: tuple[float, ...] = (), **changes: Any) -> Plan:
    times = at_s or (1.0,) * len(jobs)
    acts = [Act(at, "submit", job.name) for at, job in zip(times, jobs, strict=True)]
    return replace(Plan(jobs=jobs, acts=tuple(acts), faults=()), **changes)


_ONE_LATER = (1.0, 200.0)
_TWO_LATER = (1.0, 200.0, 200.0)
_APPEND = _plan(_job("j0"), _job("j1"), at_s=_ONE_LATER)
_OVERWRITE = _plan(_job("j0"), _job("j1", "overwrite"), at_s=_ONE_LATER)
_APPENDS_AT_ONCE = _plan(_job("j0"), _job("j1"), _job("j2"), at_s=_TWO_LATER)
_DIES = _plan(_job("j0", "append", "dies_after_commit"))
# The calls of `j1`, if nothing happens before.
_LOOKS_LAST, _COMPLETES, _COMMITS = 17, 25, 39


def _at(call: int, kind: str) -> Fault:
    return Fault("task@j1-1.1", call, kind)


def _meanwhile(kind: str, host: str = "task@j1-1.1", n: int = 4) -> Fault:
    """The fourth look of a task is its first one after the upload."""
    return Fault(f"catalog:{host}", n, kind)


TABLE_WORLDS: Mapping[str, Plan] = {
    "a job makes a table": _plan(_job("j0")),
    "a job appends to a table": _APPEND,
    "a job overwrites a table": _OVERWRITE,
    "a job makes a table and a prefix beside it": _plan(replace(_job("j0"), beside=True)),
    "a job dies between its commit and those of a table and a prefix": _plan(
        replace(_job("j0", "append", "dies_after_commit"), beside=True)
    ),
    "two jobs make a table at once": _plan(_job("j0"), _job("j1")),
    "a job dies between its commit and that to its table": _plan(
        _job("j0"), _job("j1", "append", "dies_after_commit"), at_s=_ONE_LATER
    ),
    "a newer version is rolled back before a commit to a table": replace(
        _DIES, acts=(*_DIES.acts, Act(76.0, "roll_back", "j0"))
    ),
    "a job dies as it commits, and appends with its next attempt": _plan(
        _job("j0", "append", "dies_before_commit")
    ),
    "a job is called dead as it appends": _plan(_job("j0", "append", "cut_off")),
    "the answer to a commit to a table is lost": replace(
        _APPEND, faults=(_at(_COMMITS, "lost/after/1"),)
    ),
    "no answer to a commit to a table comes": replace(
        _APPEND, faults=(_at(_COMMITS, "lost/after/all"),)
    ),
    **{
        # Settle finds its token in a snapshot of the past, or in none.
        f"a publisher dies right after its commit to a table, and another {kind}": replace(
            _APPEND, faults=(_at(_COMMITS, "crash/after"), _meanwhile(kind, "settle@j1-1#1", 1))
        )
        for kind in ("appends", "maintains")
    },
    "an attempt is cut off before its commit to a table": replace(
        _plan(_job("j0"), _job("j1", "append", "cut_off", ends_s=24.0), at_s=_ONE_LATER),
        faults=(_at(_LOOKS_LAST, "slow/40"),),
    ),
    "two appends to a table meet": replace(_APPENDS_AT_ONCE, faults=(_at(_COMMITS, "slow/60"),)),
    "a table changes right before a commit to it": replace(
        _APPEND, faults=(_meanwhile("appends", n=9),)
    ),
    "an overwrite of a table meets an append": replace(
        _plan(_job("j0"), _job("j1", "overwrite"), _job("j2"), at_s=_TWO_LATER),
        faults=(_at(_COMPLETES, "slow/60"),),
    ),
    "two overwrites of a table meet": replace(
        _plan(_job("j0"), _job("j1", "overwrite"), _job("j2", "overwrite"), at_s=_TWO_LATER),
        faults=(_at(_COMPLETES, "slow/60"),),
    ),
    **{
        f"a job overwrites a table that another {kind} meanwhile": replace(
            _OVERWRITE, faults=(_meanwhile(kind),)
        )
        for kind in WRITERS
    },
}
