"""What a simulated world shows of Longhaul: hours pass in a moment."""

from benchmarks.growth import played
from benchmarks.peers.cloud import CAP_S
from benchmarks.peers.measure import Figures
from simulation.worlds.plan import Act, Job, Plan


def beyond_the_cap() -> Figures:
    """A job that is longer than SQS's twelve hours runs once.

    Raises:
        RuntimeError: it did not.
    """
    length = CAP_S + 3600
    job = Job("job", work_s=length, timeout_s=2 * length)
    world, _ = played(Plan(jobs=(job,), acts=(Act(0, "submit", "job"),)))
    attempts = len(world.executions_of("job"))
    if attempts != 1:
        raise RuntimeError(f"a job beyond the cap had {attempts} attempts")
    return {"twice_beyond_the_cap": None}
