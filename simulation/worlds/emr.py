"""Jobs on EMR Serverless: drawn into some worlds, and worlds in which it does its worst."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.endings import EMR_FAULTS, LAMBDA_FAULTS, PLATFORM_FAULTS
from simulation.worlds.occasions import Occasion
from simulation.worlds.plan import EMR, Act, Ending, Fault, Job, Plan, world_of
from simulation.worlds.swarm import Swarm

_ON_EMR = 0.75
_LOSES_EXECUTORS = 0.5


def with_emr(rng: random.Random, plan: Plan) -> Plan:
    """The plan with jobs that ask for the engine `emr-serverless`.

    Those of the size `tiny` stay where they are, and those that write to tables, which drivers
    cannot. No swarm leaves them out: they are in few worlds as it is.
    """
    swarm = Swarm.of(plan)
    jobs = tuple(_on_emr(rng, job, swarm) if rng.random() < _ON_EMR else job for job in plan.jobs)
    return replace(plan, jobs=jobs)


def _on_emr(rng: random.Random, job: Job, swarm: Swarm) -> Job:
    if job.size or job.table:
        return job
    (kind,) = EMR_FAULTS
    may_lose = swarm.has(kind)
    endings = tuple(
        replace(each, kind=kind)
        if each.kind in PLATFORM_FAULTS | LAMBDA_FAULTS
        and may_lose
        and rng.random() < _LOSES_EXECUTORS
        else each
        for each in job.endings
    )
    return replace(job, engine=EMR, endings=endings)


def _is_on_emr(_plan: Plan, job: Job) -> bool:
    return job.engine == EMR


CANCELS_OF_JOB_RUNS = (
    Occasion(
        "cancel_job_run", 0.08, ("submit",), "roots", (0.0, 156.0), (0.0, 1.3), fits=_is_on_emr
    ),
)

_SUBMIT = Act(1.0, "submit", "j0")


def _plan(*endings: str, acts: tuple[Act, ...] = (), work_s: float = 9.0, **changes: Any) -> Plan:
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
    "a job on EMR Serverless succeeds": _plan(),
    "a job on EMR Serverless fails": _plan("fails", "crashes"),
    "the second of two jobs finds the application stopped": replace(
        _plan(),
        jobs=tuple(Job(f"j{n}", work_s=9.0, files=1, engine=EMR) for n in range(2)),
        acts=(_SUBMIT, Act(2_000.0, "submit", "j1")),
    ),
    # It stops 900 s after the first job's end, and is stopping for 30 s.
    "a job comes while the application is stopping": replace(
        _plan(),
        jobs=tuple(Job(f"j{n}", work_s=9.0, files=1, engine=EMR) for n in range(2)),
        acts=(_SUBMIT, Act(1_090.0, "submit", "j1")),
    ),
    "a job run is never scheduled, then its driver is lost": _plan(
        "never_starts", "fails_to_start"
    ),
    "a driver is lost again and again": _plan(*["infrastructure"] * 5),
    "a driver runs out of memory": _plan("oom_killed", max_attempts=2),
    "a driver hangs, and its job run is cancelled": _plan("hangs"),
    "a driver hangs, is cancelled and sent again": _plan(
        "hangs", acts=(Act(200.0, "cancel", "j0"), Act(210.0, "resubmit", "j0"))
    ),
    "a driver works on when its job run has FAILED": _plan("cut_off", work_s=100.0),
    **{
        # Others come after a while, or not in this attempt: the seed's choice.
        f"a driver loses its executors ({seed})": replace(
            _plan("loses_executors", "loses_executors"), seed=seed
        )
        for seed in (1, 2, 3)
    },
    "a driver hangs, and its job run is CANCELLING for long": _plan(
        "hangs",
        acts=(Act(200.0, "cancel", "j0"), Act(210.0, "resubmit", "j0")),
        faults=_cancelling("slow"),
    ),
    **{
        # In the end it is CANCELLED, or has its own state: the seed's choice.
        f"a job run ends while it is being cancelled ({seed})": _plan(
            work_s=100.0,
            acts=(Act(190.0, "stop_execution", "j0"),),
            faults=_cancelling("ends"),
            seed=seed,
        )
        for seed in (1, 3)
    },
    "an execution is stopped, and its job run is cancelled": _plan(
        work_s=300.0, acts=(Act(190.0, "stop_execution", "j0"),)
    ),
    "a stopped execution is redriven, and its token has been used": _plan(
        work_s=300.0,
        acts=(Act(190.0, "stop_execution", "j0"), Act(191.0, "redrive_execution", "j0")),
    ),
    "an operator cancels a job run": _plan(
        work_s=300.0, acts=(Act(190.0, "cancel_job_run", "j0"),)
    ),
    "an operator cancels a job run that waits for its driver": _plan(
        work_s=300.0, acts=(Act(20.0, "cancel_job_run", "j0"),)
    ),
    "StartJobRun's answer is lost": _plan(faults=(Fault("startJobRun@j0-1#1", 1, "lost/after/1"),)),
    "StartJobRun's answers are all lost": _plan(
        faults=(Fault("startJobRun@j0-1#1", 1, "lost/after/all"),)
    ),
    "EMR Serverless throttles": _plan(
        faults=(Fault("startJobRun@j0-1#1", 1, "throttle/before/all"),)
    ),
    **{
        f"the account's vCPU are in use for hours ({seed})": replace(
            _plan(acts=(Act(0.5, "outage", for_s=14_400.0, service="capacity"),)), seed=seed
        )
        for seed in (1, 2, 3, 4)
    },
    **{
        f"a job run may not be started for hours ({seed})": replace(
            _plan(acts=(Act(0.5, "outage", for_s=14_400.0, service="rights"),)), seed=seed
        )
        for seed in (1, 2, 3, 4)
    },
    "EMR Serverless cannot be reached for an hour": _plan(
        acts=(Act(0.5, "outage", for_s=3_600.0, service=EMR),)
    ),
    "more jobs than the application has vCPU for": _crowd(12),
}
