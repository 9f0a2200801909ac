"""The calls of AWS for one job without trouble, by kind.

    .venv/bin/python -m benchmarks.job_calls [--seconds 100 600]

Each number is a simulated world with one job that works so long and writes two small files: the
real functions and the real runner, in virtual time. Sweeps are left out: they come every five
minutes, whatever the number of jobs.
"""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from os import devnull
from pathlib import Path

from simulation.aws.platform.hosts import Host
from simulation.aws.service import Call
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.run import play
from simulation.worlds.world import World

# By the program that calls; what else calls is the platform, or a sweep.
_KINDS = {"dispatcher": "claim", "heartbeat": "beats", "task": "output", "settle": "end"}


def calls_of_a_job(work_s: float) -> Counter[str]:
    """Calls by kind: `claim`, `beats`, `reports`, `output` (all else of the task) and `end`.

    Raises:
        RuntimeError: an invariant does not hold.
    """
    world = World(Plan(jobs=(Job("job", work_s=work_s),), acts=(Act(0, "submit", "job"),), slots=1))
    counted: Counter[str] = Counter()
    saw = world.sdk.saw

    def count(call: Call, host: Host) -> None:
        kind = _KINDS.get(host.name.partition("@")[0])
        if kind is not None:
            counted["reports" if _is_report(call) else kind] += 1
        saw(call, host)

    world.sdk.saw = count
    play(world)
    if world.seen.violated is not None:
        raise RuntimeError(str(world.seen.violated))
    return counted


def _is_report(call: Call) -> bool:
    return "progress" in call.arguments.get("ExpressionAttributeNames", {}).values()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, nargs="+", default=[100, 600])
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with Path(devnull).open("w") as nothing, redirect_stdout(nothing):  # the metrics' lines
        found = {seconds: calls_of_a_job(seconds) for seconds in options.seconds}
    for seconds, calls in found.items():
        each = ", ".join(f"{kind} {count}" for kind, count in calls.most_common())
        sys.stdout.write(f"{seconds:>6g} s  {calls.total():>4} calls  ({each})\n")


if __name__ == "__main__":
    main(sys.argv[1:])
