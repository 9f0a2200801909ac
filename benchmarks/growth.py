"""What a job costs where many run at once: calls of AWS, and CPU time of our code and the fakes.

    .venv/bin/python -m benchmarks.growth [--jobs 10 100 1000] [--burst 200]

Each number is a simulated world of its own: so many jobs of ten minutes in one stage with as many
slots, 20 sent a second, without faults. The figures are counts for each job, and CPU seconds for
each job as a ratio to the first world's. If anything grew faster than the number of jobs, both
would rise from line to line. `--burst` sends so many jobs at once instead, more than RunTask takes:
20 a second of an account, and 100 at once. Its line says when the last one had its task.
"""

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from os import devnull
from pathlib import Path
from typing import Any

from simulation.aws.ecs.client import Launches
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.run import play
from simulation.worlds.world import World

_WORK_S = 600.0


def grown(jobs: int) -> tuple[Counter[str], float]:
    """Calls of AWS by `service.Operation`, and CPU seconds, of a world with so many jobs."""
    names = [f"job-{n}" for n in range(jobs)]
    plan = Plan(
        jobs=tuple(Job(name, work_s=_WORK_S) for name in names),
        acts=tuple(Act(n / Launches.per_s, "submit", name) for n, name in enumerate(names)),
        slots=jobs,
    )
    began = time.process_time()
    world = run_to_end(plan)
    return world.sdk.counts, time.process_time() - began


def burst(jobs: int, launches: Launches | None = None) -> dict[str, Any]:
    """What becomes of so many jobs that are sent at once."""
    bucket = launches or Launches()
    names = [f"job-{n}" for n in range(jobs)]
    plan = Plan(
        jobs=tuple(Job(name, work_s=_WORK_S) for name in names),
        acts=tuple(Act(1.0, "submit", name) for name in names),
        slots=jobs,
        launches_per_s=bucket.per_s,
        launches_at_once=bucket.at_once,
    )
    world = run_to_end(plan)
    tasks = [task for cluster in world.aws.ecs.clusters.values() for task in cluster.tasks.values()]
    last_at = max(task.created_at for task in tasks)
    return {
        "jobs": jobs,
        "least_s": max(0.0, (jobs - bucket.at_once) / bucket.per_s),
        "last_task_after_s": round((last_at - world.seen.began_at).total_seconds() - 1.0, 1),
        "all_done_after_s": round(
            (max(world.seen.published.values()) - world.seen.began_at).total_seconds() - 1.0
        ),
        "throttled": world.aws.ecs.launches.throttled,
    }


def run_to_end(plan: Plan) -> World:
    """The world of a plan at its end.

    Raises:
        RuntimeError: an invariant does not hold.
    """
    world = World(plan)
    play(world)
    if world.seen.violated is not None:
        raise RuntimeError(str(world.seen.violated))
    return world


def compared(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """One line for each number of jobs."""
    lines: list[dict[str, Any]] = []
    for jobs in sizes:
        calls, cpu_s = grown(jobs)
        lines.append(
            {
                "jobs": jobs,
                "calls_per_job": round(calls.total() / jobs, 2),
                "cpu_ms_per_job": cpu_s / jobs * 1000,
                "calls": {name: round(n / jobs, 2) for name, n in calls.most_common()},
            }
        )
        lines[-1]["cpu_ratio"] = round(lines[-1]["cpu_ms_per_job"] / lines[0]["cpu_ms_per_job"], 2)
    return lines


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, nargs="+", default=[10, 100, 1_000])
    parser.add_argument("--burst", type=int)
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with Path(devnull).open("w") as nothing, redirect_stdout(nothing):  # the metrics' lines
        lines = [burst(options.burst)] if options.burst else compared(options.jobs)
    for line in lines:
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
