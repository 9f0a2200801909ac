"""Worlds in which it matters when a message was sent.

Cancels and corrections, copies that outlive their job, sends that a producer doubled; and jobs that
are to begin later.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.plan import Act, Ending, Fault, Job, Plan

_HOUR_S = 3_600.0
_SUBMIT = Act(1.0, "submit", "j0")
_BUSY = Act(0.5, "submit", "j1", for_s=900.0)
_LATER = replace(_BUSY, at_s=150.0)
_SHORT = Job("j0", work_s=9.0, files=1)
_DIES = Job("j0", work_s=9.0, files=1, endings=(Ending("permanent", 2.0),))
_DEAF = Job("j0", work_s=9.0, files=1, endings=(Ending("hangs", 2.0),))


def _plan(job: Job, *acts: Act, others: tuple[Job, ...] = (), **changes: Any) -> Plan:
    plan = Plan(jobs=(job, *others), acts=acts, faults=())
    return replace(plan, **changes)


def _behind(job: Job, *acts: Act, busy: Act = _BUSY, **changes: Any) -> Plan:
    """The job waits for the only slot, which another job has for some time from `busy` on."""
    work_s = busy.for_s
    other = Job("j1", work_s=work_s, files=1, timeout_s=max(21_600, round(2 * work_s)))
    return _plan(job, busy, *acts, others=(other,), slots=1, **changes)


LEFTOVERS: Mapping[str, Plan] = {
    "a queued job is cancelled, and corrected while its message waits": _behind(
        _SHORT, Act(5.0, "submit", "j0"), Act(30.0, "cancel", "j0"), Act(35.0, "resubmit", "j0", 3)
    ),
    "a queued job is cancelled, and the same is sent again": _behind(
        _SHORT, Act(5.0, "submit", "j0"), Act(30.0, "cancel", "j0"), Act(35.0, "resubmit", "j0")
    ),
    "a job is sent again while its cancelled run stops": _plan(
        _DEAF, _SUBMIT, Act(90.0, "cancel", "j0"), Act(92.0, "resubmit", "j0")
    ),
    "a job is corrected while its cancelled run stops": _plan(
        _DEAF, _SUBMIT, Act(90.0, "cancel", "j0"), Act(92.0, "resubmit", "j0", 3)
    ),
    "a correction that waits is cancelled in its turn": _behind(
        _SHORT,
        _SUBMIT,
        Act(40.0, "cancel", "j0"),
        Act(200.0, "resubmit", "j0", 3),
        Act(260.0, "cancel", "j0"),
        busy=_LATER,
    ),
    "a correction of a dead job is cancelled while it waits": _behind(
        _DIES, _SUBMIT, Act(200.0, "resubmit", "j0", 3), Act(260.0, "cancel", "j0"), busy=_LATER
    ),
    "a correction of a dead job is cancelled just before its claim": _behind(
        _DIES,
        _SUBMIT,
        Act(200.0, "resubmit", "j0", 3),
        Act(555.0, "cancel", "j0"),
        busy=replace(_LATER, for_s=400.0),
    ),
    "a success is cancelled, and turns out to be void": _plan(
        Job("j0", files=1, endings=(Ending("uploads_end", 97.6),)),
        Act(200.8, "submit", "j0"),
        Act(407.7, "cancel", "j0"),
        seed=70153,
    ),
    "a queued job is cancelled while a dispatcher holds its message": _behind(
        _SHORT,
        Act(5.0, "submit", "j0"),
        Act(220.0, "cancel", "j0"),
        renew_receives=2,
    ),
    "settle hangs after it has sent a follow-on, which dies before it is sent again": _plan(
        Job("j0", work_s=9.0, files=1, fan_out=1),
        Act(31.0, "submit", "j0"),
        others=(replace(_DIES, name="j0.0"),),
        clean_slots=10,
        faults=(Fault("settle@j0-1#1", 5, "hang/after"),),
    ),
    "a slow dispatcher adopts a receive when a later one has been adopted": _plan(
        Job("j0", work_s=300.0, files=1),
        _SUBMIT,
        Act(100.0, "redeliver", "j0"),
        Act(105.0, "redeliver", "j0"),
        faults=(Fault("dispatcher@m2#1", 1, "slow/40"),),
    ),
    "two jobs overwrite one output at once": replace(
        _plan(_SHORT, _SUBMIT, Act(1.0, "submit", "j1")),
        jobs=(
            Job("j0", work_s=9.0, output="log"),
            Job("j1", work_s=9.0, output="log"),
        ),
        faults=(Fault("task@j1-1.1", 8, "slow/40"),),
    ),
    "a producer doubles the send of a job that dies at once": _plan(
        _DIES, Act(1.0, "submit_twice", "j0")
    ),
    "a doubled message comes when its job has died, and has been corrected": _plan(
        _DIES,
        Act(1.0, "submit", "j0"),
        Act(8.0, "submit", "j0"),
        Act(90.0, "correct", "j0", work=3),
        faults=(Fault("deliver:m2", 1, "late/900"),),
    ),
    "a producer doubles the send of a job that is cancelled": _plan(
        _SHORT, Act(1.0, "submit_twice", "j0"), Act(40.0, "cancel", "j0")
    ),
    "a sweeper dies between a copy and its note": _plan(
        Job("j0", work_s=9.0, files=1, endings=(Ending("fails", 2.0),), poison=True),
        _SUBMIT,
        Act(2.0, "lose_released"),
        max_attempts=2,
    ),
    "a dispatcher dies after it has renewed a waiting message": _behind(
        _DIES, Act(5.0, "submit", "j0"), Act(6.0, "renewer_dies"), renew_receives=2
    ),
    "a released job waits for a slot longer than a message may be missing": _behind(
        Job("j0", work_s=9.0, files=1, stall_timeout_s=60, endings=(Ending("jvm_hangs", 2.0),)),
        _SUBMIT,
        busy=Act(200.0, "submit", "j1", for_s=8 * _HOUR_S),
    ),
    "a message waits for a slot longer than SQS keeps one": _behind(
        _SHORT,
        Act(5.0, "submit", "j0"),
        busy=Act(0.5, "submit", "j1", for_s=40 * _HOUR_S),
        retention_s=30 * 3_600,
    ),
    "a running job outlives what SQS keeps its message for": _plan(
        Job("j0", work_s=40 * _HOUR_S, files=1, timeout_s=604_800),
        _SUBMIT,
        retention_s=30 * 3_600,
    ),
}
