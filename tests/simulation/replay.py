"""Replay a world with its history: `python -m tests.simulation.replay SEED | PLAN | FILE`, where a plan is the JSON that a violation prints."""

import argparse
import sys
from pathlib import Path

from tests.simulation.generation import plan_of
from tests.simulation.plan import Plan
from tests.simulation.run import Violation, run
from tests.simulation.shrink import Shrinker


def main() -> int:
    """Exit code 1: an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description=__doc__)
    parser.add_argument("world", help="a seed, a plan as JSON, or a file that holds one")
    parser.add_argument(
        "--shrink", action="store_true", help="look for the smallest plan that shows the violation first"
    )
    parser.add_argument("--quiet", action="store_true", help="without the history")
    arguments = parser.parse_args()
    plan = read(arguments.world)
    if arguments.shrink and (violation := run(plan).violation) is not None:
        plan = Shrinker(violation).shrink().plan
    found = run(plan, trace=None if arguments.quiet else print)
    print(f"{found.virtual_s / 3600:.2f} virtual hours, {len(found.faults)} faults", file=sys.stderr)
    if found.violation is None:
        print("every invariant held", file=sys.stderr)
        return 0
    print(report(found.violation), file=sys.stderr)
    return 1


def read(text: str) -> Plan:
    """The world that a seed, a plan or a file names."""
    if text.isdecimal():
        return plan_of(int(text))
    return Plan.from_json(text if text.startswith("{") else Path(text).read_text())


def report(violation: Violation) -> str:
    """What is wrong, in words, and the command that shows it again."""
    return f"{violation.text}\n  replay: {command(violation.plan)}"


def command(plan: Plan) -> str:
    return f".venv/bin/python -m tests.simulation.replay '{plan.to_json()}'"


if __name__ == "__main__":
    sys.exit(main())
