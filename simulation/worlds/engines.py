"""Worlds in which Lambda and EMR Serverless do their worst to the jobs that run on them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.plan import EMR, TINY, Act, Ending, Fault, Job, Plan, world_of

_SUBMIT = Act(1.0, "submit", "j0")


def _tiny(*endings: str, acts: tuple[Act, ...] = (), **changes: Any) -> Plan:
    ends = tuple(Ending(kind, 2.0) for kind in endings)
    job = Job("j0", work_s=9.0, files=1, size=TINY, stall_timeout_s=60, endings=ends)
    return world_of(job, *acts, **changes)


def _invoked(kind: str) -> Plan:
    return _tiny(faults=(Fault("invoke:tiny@j0-1", 1, kind),))


TINY_WORLDS: Mapping[str, Plan] = {
    "a tiny job succeeds": _tiny(),
    "a tiny job's invocation runs twice": _invoked("doubled"),
    "a tiny job works on when the answer to its invocation is lost": replace(
        _invoked("lost"), jobs=(Job("j0", work_s=300.0, files=1, size=TINY),)
    ),
    "a tiny job's execution is stopped, and its invocation goes on": replace(
        _tiny(acts=(Act(60.0, "stop_execution", "j0"),)),
        jobs=(Job("j0", work_s=300.0, files=1, size=TINY),),
    ),
    "a tiny job goes on when Step Functions calls it ended": _tiny("cut_off"),
    "a tiny job hangs until Lambda's time is up": _tiny("hangs"),
    "a tiny job hangs, is cancelled and sent again": _tiny(
        "hangs", acts=(Act(30.0, "cancel", "j0"), Act(40.0, "resubmit", "j0"))
    ),
    "a tiny job dies, and its correction runs at once": _tiny(
        "fails", max_attempts=1, acts=(Act(60.0, "resubmit", "j0"),)
    ),
    "a tiny job is never initialized, then late": _tiny("never_starts", "fails_to_start"),
    "a tiny job runs out of memory": _tiny("oom_killed", max_attempts=2),
    "a tiny job's environment is lost again and again": _tiny(*["infrastructure"] * 5),
    "Lambda has no room for a tiny job for hours": _tiny(
        acts=(Act(0.5, "outage", for_s=14_400.0, service="capacity"),)
    ),
    "a tiny job may not be started for hours": _tiny(
        acts=(Act(0.5, "outage", for_s=14_400.0, service="rights"),)
    ),
    **{
        # Thawed soon, by the next attempt in its environment, or never: the seed's choice.
        f"a tiny job's environment is frozen ({seed})": replace(_tiny("frozen"), seed=seed)
        for seed in (1, 4, 5)
    },
    "a tiny job asks for more time than Lambda has": replace(
        _tiny(), jobs=(Job("j0", work_s=1_000.0, files=1, size=TINY, timeout_s=1_800),)
    ),
}


def _on_emr(*endings: str, acts: tuple[Act, ...] = (), work_s: float = 9.0, **changes: Any) -> Plan:
    ends = tuple(Ending(kind, 2.0) for kind in endings)
    job = Job("j0", work_s=work_s, files=2, engine=EMR, stall_timeout_s=120, endings=ends)
    return world_of(job, *acts, **changes)


def _cancelling(kind: str) -> tuple[Fault, ...]:
    """EMR takes its time with a cancel, or the driver ends by itself first."""
    return (Fault("cancelling:j0-1", 1, kind),)


def _crowd(size: int) -> Plan:
    jobs = tuple(Job(f"j{n}", work_s=600.0, files=1, engine=EMR) for n in range(size))
    return Plan(
        jobs=jobs, acts=tuple(Act(1.0, "submit", job.name) for job in jobs), faults=(), slots=15
    )


EMR_WORLDS: Mapping[str, Plan] = {
    "a job on EMR Serverless succeeds": _on_emr(),
    "a job on EMR Serverless fails": _on_emr("fails", "crashes"),
    "the second of two jobs finds the application stopped": replace(
        _on_emr(),
        jobs=tuple(Job(f"j{n}", work_s=9.0, files=1, engine=EMR) for n in range(2)),
        acts=(_SUBMIT, Act(2_000.0, "submit", "j1")),
    ),
    # It stops 900 s after the first job's end, and is stopping for 30 s.
    "a job comes while the application is stopping": replace(
        _on_emr(),
        jobs=tuple(Job(f"j{n}", work_s=9.0, files=1, engine=EMR) for n in range(2)),
        acts=(_SUBMIT, Act(1_090.0, "submit", "j1")),
    ),
    "a job run is never scheduled, then its driver is lost": _on_emr(
        "never_starts", "fails_to_start"
    ),
    "a driver is lost again and again": _on_emr(*["infrastructure"] * 5),
    "a driver runs out of memory": _on_emr("oom_killed", max_attempts=2),
    "a driver hangs, and its job run is cancelled": _on_emr("hangs"),
    "a driver hangs, is cancelled and sent again": _on_emr(
        "hangs", acts=(Act(200.0, "cancel", "j0"), Act(210.0, "resubmit", "j0"))
    ),
    "a driver works on when its job run has FAILED": _on_emr("cut_off", work_s=100.0),
    **{
        # Others come after a while, or not in this attempt: the seed's choice.
        f"a driver loses its executors ({seed})": replace(
            _on_emr("loses_executors", "loses_executors"), seed=seed
        )
        for seed in (1, 2, 3)
    },
    "a driver hangs, and its job run is CANCELLING for long": _on_emr(
        "hangs",
        acts=(Act(200.0, "cancel", "j0"), Act(210.0, "resubmit", "j0")),
        faults=_cancelling("slow"),
    ),
    **{
        # In the end it is CANCELLED, or has its own state: the seed's choice.
        f"a job run ends while it is being cancelled ({seed})": _on_emr(
            work_s=100.0,
            acts=(Act(190.0, "stop_execution", "j0"),),
            faults=_cancelling("ends"),
            seed=seed,
        )
        for seed in (1, 3)
    },
    "an execution is stopped, and its job run is cancelled": _on_emr(
        work_s=300.0, acts=(Act(190.0, "stop_execution", "j0"),)
    ),
    "a stopped execution is redriven, and its token has been used": _on_emr(
        work_s=300.0,
        acts=(Act(190.0, "stop_execution", "j0"), Act(191.0, "redrive_execution", "j0")),
    ),
    "an operator cancels a job run": _on_emr(
        work_s=300.0, acts=(Act(190.0, "cancel_job_run", "j0"),)
    ),
    "an operator cancels a job run that waits for its driver": _on_emr(
        work_s=300.0, acts=(Act(20.0, "cancel_job_run", "j0"),)
    ),
    "StartJobRun's answer is lost": _on_emr(
        faults=(Fault("startJobRun@j0-1#1", 1, "lost/after/1"),)
    ),
    "StartJobRun's answers are all lost": _on_emr(
        faults=(Fault("startJobRun@j0-1#1", 1, "lost/after/all"),)
    ),
    "EMR Serverless throttles": _on_emr(
        faults=(Fault("startJobRun@j0-1#1", 1, "throttle/before/all"),)
    ),
    **{
        f"the account's vCPU are in use for hours ({seed})": replace(
            _on_emr(acts=(Act(0.5, "outage", for_s=14_400.0, service="capacity"),)), seed=seed
        )
        for seed in (1, 2, 3, 4)
    },
    **{
        f"a job run may not be started for hours ({seed})": replace(
            _on_emr(acts=(Act(0.5, "outage", for_s=14_400.0, service="rights"),)), seed=seed
        )
        for seed in (1, 2, 3, 4)
    },
    "EMR Serverless cannot be reached for an hour": _on_emr(
        acts=(Act(0.5, "outage", for_s=3_600.0, service=EMR),)
    ),
    "more jobs than the application has vCPU for": _crowd(12),
}
