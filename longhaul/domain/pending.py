"""Pending lists: what an attempt uploaded and nobody has completed yet, by the name of the list alone. Pure.

The runner writes an attempt's list once its uploads are created; settle aborts them when the attempt fails. What is left then (a list of uploads that are
completed, aborted, or were still being sent when they were aborted) the sweeper clears away: `fate` says when.
"""

import re
from datetime import datetime, timedelta
from typing import Literal

from longhaul.domain import schedule
from longhaul.domain.lease import AttemptId, Lease, State, job_key
from longhaul.domain.paths import INTERNAL_PREFIX
from longhaul.settings import LeaseSettings

PREFIX = f"{INTERNAL_PREFIX}pending/"

Fate = Literal["keep", "strike off", "abort"]
"""Of a list. `strike off`: its output is published, only the list is left. `abort`: nobody will ever commit these uploads."""

# Stands for the `#` and for every `/` of a key, and occurs in neither a stage's name nor a job's id: whose list it is takes no look inside.
_SEPARATOR = "!"
_REF = re.compile(rf"{re.escape(PREFIX)}([^/{_SEPARATOR}]+){_SEPARATOR}([^/]+)/(\d+)-(\d+)\.json")


def pending_ref(attempt: AttemptId) -> str:
    """Where the pending uploads of an attempt are listed, in the data bucket."""
    key = attempt.key.replace("#", _SEPARATOR).replace("/", _SEPARATOR)
    return f"{PREFIX}{key}/{attempt.run}-{attempt.attempt}.json"


def attempt_of(ref: str) -> AttemptId | None:
    """The attempt whose list is there; None when the name is no list's."""
    match = _REF.fullmatch(ref)
    if match is None:
        return None
    stage, job_id, run, attempt = match.groups()
    return AttemptId(job_key(stage, job_id.replace(_SEPARATOR, "/")), int(run), int(attempt))


def fate(attempt: AttemptId, row: Lease | None, numbers: LeaseSettings, now: datetime) -> Fate:
    """What becomes of an attempt's list, given its job's row. Uploads of an attempt that runs, or has committed what is not yet published, are kept."""
    if row is None or attempt < row.id:
        return "abort"
    if attempt > row.id or row.state is State.RUNNING:
        return "keep"
    if row.state is State.SUCCEEDED:
        return "strike off" if row.published_at else "keep"
    # Its task may still be stopping, and sending: a part that arrives after the abort would stay, and be paid for.
    still_stopping = timedelta(seconds=schedule.stop_clearance_s(numbers))
    return "keep" if row.settled_at and now - row.settled_at < still_stopping else "abort"
