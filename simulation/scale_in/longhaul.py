"""The same work through Longhaul, as one world without faults.

The handlers, the state machine and the runner are those of every world, so all decisions that could
stop a task are real. No metric takes part: `tests/cdk/test_scaling.py` shows that nothing in the
template could read one.
"""

from collections.abc import Sequence

from simulation.scale_in.work import Job, Outcome
from simulation.worlds.plan import Act, Plan
from simulation.worlds.plan import Job as PlannedJob
from simulation.worlds.run import play
from simulation.worlds.world import World

MAX_WORKERS = 10  # slots, as many as the other design has workers
_DEFAULT_TIMEOUT_S = 21_600


def by_leases(jobs: Sequence[Job]) -> Outcome:
    """Run the jobs to their end.

    Raises:
        AssertionError: an invariant does not hold.
    """
    world = World(_plan(jobs))
    play(world)
    if world.seen.violated is not None:
        raise AssertionError(str(world.seen.violated))
    length_s = {f"job-{job.n}": job.length_s for job in jobs}
    outcome = Outcome(dead_letters=len(world.seen.dead_letters))
    for token in world.seen.published:
        outcome.done += 1
        outcome.useful_s += length_s[world.seen.names[token.key]]
    for cluster in world.aws.ecs.clusters.values():
        for task in cluster.tasks.values():
            if task.stopped_at is None or task.started_at is None:
                raise AssertionError(f"{task.arn} has not come to an end")
            outcome.paid_s += (task.stopped_at - task.created_at).total_seconds()
            if task.stop_code != "EssentialContainerExited":
                outcome.stopped += 1
                outcome.lost_s += (task.stopped_at - task.started_at).total_seconds()
    outcome.stopped += sum(
        execution.status == "ABORTED" for execution in world.aws.stepfunctions.executions.values()
    )
    return outcome


def _plan(jobs: Sequence[Job]) -> Plan:
    return Plan(
        jobs=tuple(
            PlannedJob(
                f"job-{job.n}",
                work_s=job.length_s,
                files=1,
                timeout_s=max(_DEFAULT_TIMEOUT_S, round(2 * job.length_s)),
            )
            for job in jobs
        ),
        acts=tuple(Act(job.sent_at_s, "submit", f"job-{job.n}") for job in jobs),
        faults=(),
        slots=MAX_WORKERS,
    )
