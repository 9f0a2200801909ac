"""What people can do with a dead letter."""

import json
from typing import TYPE_CHECKING

from simulation.seen.invariants.table import invariant

if TYPE_CHECKING:
    from simulation.seen.record import Seen
    from simulation.seen.sightings import DeadLetter


@invariant("L10", "dead letter", "every dead letter can be redriven under its own job id")
def letter_keeps_its_job_id(seen: "Seen", letter: "DeadLetter") -> str | None:
    """The id is in the body, or in an attribute; without both a redrive is another job."""
    del seen
    key = letter.reason.get("key")
    if key is None:
        return None  # no job: its body can never run
    job_id = _job_id_in(letter.body) or letter.job_id
    if job_id == key.partition("#")[2]:
        return None
    return f"the dead letter of {key} would be redriven as {job_id or 'a new job'}"


def _job_id_in(body: str) -> str | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    job_id = found.get("job_id") if isinstance(found, dict) else None
    return job_id if isinstance(job_id, str) else None
