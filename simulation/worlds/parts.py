"""Worlds of jobs that work in parts, and store each."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulation.worlds.plan import EMR, Act, Ending, Fault, Job, Plan, world_of

_SUBMIT = Act(1.0, "submit", "j0")


def _plan(*endings: str, acts: tuple[Act, ...] = (), after_s: float = 40.0, **changes: Any) -> Plan:
    ends = tuple(Ending(kind, after_s) for kind in endings)
    asked = {
        name: changes.pop(name) for name in ("saves", "table", "size", "engine") if name in changes
    }
    job = Job("j0", work_s=60.0, files=2, parts=3, endings=ends, **asked)
    return world_of(job, *acts, **changes)


_DEAD = _plan("fails", max_attempts=1)

PARTS_WORLDS: Mapping[str, Plan] = {
    "a job works in parts": _plan(),
    "a job in parts dies, and goes on": _plan("crashes"),
    "a job in parts with a checkpoint dies, and goes on": _plan("crashes", saves="checkpoint"),
    "a job in parts with a folder dies twice, and goes on": _plan(
        "crashes", "crashes", saves="folder"
    ),
    "a job with two datasets in parts dies, and goes on": _plan("crashes", saves="datasets"),
    "S3 is out while a job with two datasets stores their parts": _plan(
        "crashes",
        acts=(Act(85.0, "outage", for_s=60.0, service="s3"),),
        after_s=60.5,
        saves="datasets",
    ),
    "a job in parts is interrupted": _plan("spot", saves="folder"),
    "a job in parts for a table dies, and goes on": _plan("crashes", table="events"),
    "a job in parts is called dead, and works on": _plan("cut_off"),
    "a job in parts is called dead as it stores its last part": _plan("cut_off", after_s=60.1),
    # Its runner hears that only later: it reports each quarter of a minute.
    "a job in parts is called dead, and stores a part when the next attempt has begun": replace(
        _plan(),
        jobs=(Job("j0", work_s=849.0, files=2, parts=3, endings=(Ending("cut_off", 280.0),)),),
    ),
    "a job in parts runs out of memory, and goes on": _plan("oom_killed", "disk_full"),
    "a job in parts dies between commit and publish": _plan("dies_after_commit"),
    "a job in parts dies as it commits": _plan("dies_before_commit"),
    "a job in parts turns out to be void": _plan("uploads_end"),
    "a tiny job in parts dies, and goes on": _plan("crashes", size="tiny"),
    "a job in parts on EMR Serverless dies, and goes on": _plan("crashes", engine=EMR),
    "a job in parts with a checkpoint on EMR Serverless dies, and goes on": _plan(
        "crashes", engine=EMR, saves="checkpoint"
    ),
    "a job in parts with a folder on EMR Serverless loses its driver": _plan(
        "infrastructure", engine=EMR, saves="folder"
    ),
    "a job in parts on EMR Serverless loses its executors": _plan("loses_executors", engine=EMR),
    # Its executors write on.
    "a job in parts on EMR Serverless is called dead, and works on": _plan("cut_off", engine=EMR),
    "S3 is out for the driver of a job in parts": _plan(
        "crashes",
        acts=(Act(170.0, "outage", for_s=60.0, service="s3"),),
        after_s=60.5,
        engine=EMR,
        saves="datasets",
    ),
    "what was stored makes a job fail twice in the same way": _plan(
        "crashes", "crashes", "crashes", after_s=2.0, saves="folder"
    ),
    "a job in parts fails in the same way from the same part": _plan(
        "crashes", "fails", "fails", after_s=30.0, max_attempts=5
    ),
    **{
        f"the {what} of a job in parts change before its next attempt": _plan(
            "crashes", acts=(Act(130.0, "change", "j0", service=what),), saves=saves
        )
        for what, saves in (("code", "folder"), ("inputs", "folder"))
    },
    "new code asks no more for a part that is stored": _plan(
        "crashes", acts=(Act(130.0, "change", "j0", service="code"),), after_s=60.5
    ),
    "the code of a job with a checkpoint changes": _plan(
        "crashes", acts=(Act(130.0, "change", "j0", service="code"),), saves="checkpoint"
    ),
    "a dead job in parts is sent again": replace(
        _DEAD, acts=(_SUBMIT, Act(400.0, "redrive_dead_letters"))
    ),
    "a dead job in parts is corrected": replace(
        _DEAD, acts=(_SUBMIT, Act(400.0, "correct", "j0", work=1))
    ),
    "a dead job in parts is sent again too late": replace(
        _DEAD, acts=(_SUBMIT, Act(9_000.0, "redrive_dead_letters")), kept_s=7_200
    ),
    "a dead job in parts is never sent again": replace(_DEAD, kept_s=3_600),
    "a job in parts is cancelled": _plan(acts=(Act(100.0, "cancel", "j0"),)),
    # Its runner has not heard of the cancel when it stores a part.
    "a job in parts is cancelled as it stores one": _plan(acts=(Act(83.0, "cancel", "j0"),)),
    "S3 is out while a job stores its parts": _plan(
        "crashes", acts=(Act(85.0, "outage", for_s=60.0, service="s3"),), after_s=55.0
    ),
    "S3 is out while a job for a table stores its parts": _plan(
        "crashes",
        acts=(Act(85.0, "outage", for_s=60.0, service="s3"),),
        table="events",
        after_s=60.5,
    ),
    "S3 keeps a job waiting that stores a part": replace(
        _plan(acts=(Act(80.0, "outage", for_s=150.0, service="s3"),), max_attempts=1),
        jobs=(Job("j0", work_s=60.0, files=2, parts=3, stall_timeout_s=60),),
    ),
    "S3 is out while an attempt looks at what is stored": _plan(
        "crashes", acts=(Act(130.0, "outage", for_s=300.0, service="s3"),), saves="folder"
    ),
    "DynamoDB is out while a job stores its parts": _plan(
        "crashes", acts=(Act(85.0, "outage", for_s=40.0, service="dynamodb"),), after_s=55.0
    ),
    **{
        f"the answer to a pointer's move is lost, {kind}": _plan(
            "crashes", faults=(Fault("task@j0-1.1", call, kind),)
        )
        for kind in ("lost/after/1", "lost/after/all")
        for call in (14,)
    },
}
