"""What a drawn world costs, before it is run.

A tenth of the worlds took half of the CPU time, and showed hardly more seeded bugs than others.
"""

from simulation.worlds.plan import Job, Plan
from simulation.worlds.stages import jobs_of

USUAL = 4.0
"""What is drawn costs that or less in half of all cases."""

_HOUR_S = 3_600.0
_STAGE_TIMEOUT_S = 21_600.0
_AT_ONCE = 5  # jobs of a batch, about, that are looked at together while they wait


def cost_of(plan: Plan) -> float:
    """About how much a world costs, in short jobs; fitted to the CPU time of 400 worlds.

    What waits is looked at again and again, and there are sweeps as long as the world lasts.
    """
    waits_s = min(len(plan.jobs), _AT_ONCE) * sum(act.for_s for act in plan.acts)
    ends_s = [act.at_s + act.for_s for act in plan.acts]
    last_s = max(ends_s, default=0.0)
    return sum(map(_of_job, jobs_of(plan).values())) + (0.2 * waits_s + 0.06 * last_s) / _HOUR_S


def _of_job(job: Job) -> float:
    """Beats and reports are frequent in the first hour, and rare later."""
    # Its longest attempt.
    is_endless = any(each.kind == "endless" for each in job.endings)
    lasts_s = (job.timeout_s or _STAGE_TIMEOUT_S) if is_endless else job.work_s
    busy = min(lasts_s, _HOUR_S) / 1_200 + lasts_s / (6 * _HOUR_S)
    return 1 + busy + job.parts / 2 + bool(job.table)
