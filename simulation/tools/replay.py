"""Replay a world and print its history.

`python -m simulation.tools.replay SEED | PLAN | FILE`: a seed, a plan in the JSON that a violation
prints, or a file with one. The exit code is 1 when an invariant does not hold.
"""

import argparse
import sys
from pathlib import Path

from pydantic import ValidationError

from simulation.tools.shrink import Shrinker
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Plan
from simulation.worlds.run import Violation, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.tools.replay", description=__doc__)
    parser.add_argument("world", type=read, help="a seed, a plan as JSON, or a file with one")
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="first find the smallest plan that shows the violation",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print the history")
    arguments = parser.parse_args()
    plan = arguments.world
    if arguments.shrink and (violation := run(plan).violation) is not None:
        plan = Shrinker(violation).shrink().plan
    found = run(plan, trace=None if arguments.quiet else print)
    print(
        f"{found.virtual_s / 3600:.2f} virtual hours, {len(found.faults)} faults", file=sys.stderr
    )
    if found.violation is None:
        print("every invariant held", file=sys.stderr)
        return 0
    print(report(found.violation), file=sys.stderr)
    return 1


def read(text: str) -> Plan:
    """The world that a seed, a plan or a file names.

    Raises:
        ArgumentTypeError: there is no such world; the message says what is wrong.
    """
    if text.isdecimal():
        return plan_of(int(text))
    try:
        plan = Plan.from_json(text if text.startswith("{") else Path(text).read_text())
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"neither a seed nor a plan, and no file: {error}"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise argparse.ArgumentTypeError(
            f"no plan: {where or 'the text'}: {first['msg']}"
        ) from None
    return plan


def report(violation: Violation) -> str:
    """What is wrong, and the command that shows it again."""
    command = f".venv/bin/python -m simulation.tools.replay '{violation.plan.to_json()}'"
    return f"{violation.text}\n  replay: {command}"


if __name__ == "__main__":
    sys.exit(main())
