"""What a job costs where many run at once: calls of AWS, and CPU time of our code and the fakes.

    .venv/bin/python -m benchmarks.growth [--jobs 10 100 1000] [--json]

Each number is a simulated world of its own: so many jobs of ten minutes in one stage with as many
slots, 20 sent a second, without faults. The figures are counts for each job, and CPU seconds for
each job as a ratio to the first world's. If anything grew faster than the number of jobs, both
would rise from line to line.
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

from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.run import play
from simulation.worlds.world import World

_WORK_S = 600.0
_LAUNCHES_PER_S = 20  # of Fargate


def grown(jobs: int) -> tuple[Counter[str], float]:
    """Calls of AWS by `service.Operation`, and CPU seconds, of a world with so many jobs."""
    names = [f"job-{n}" for n in range(jobs)]
    plan = Plan(
        jobs=tuple(Job(name, work_s=_WORK_S) for name in names),
        acts=tuple(Act(n / _LAUNCHES_PER_S, "submit", name) for n, name in enumerate(names)),
        slots=jobs,
    )
    began = time.process_time()
    world = run_to_end(plan)
    return world.sdk.counts, time.process_time() - began


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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with Path(devnull).open("w") as nothing, redirect_stdout(nothing):  # the metrics' lines
        lines = compared(options.jobs)
    if options.json:
        sys.stdout.write(json.dumps(lines) + "\n")
        return
    for line in lines:
        most = ", ".join(f"{name} {n}" for name, n in list(line["calls"].items())[:6])
        sys.stdout.write(
            f"{line['jobs']:>7,} jobs  {line['calls_per_job']:>7} calls a job  "
            f"CPU a job x {line['cpu_ratio']}  ({most})\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
