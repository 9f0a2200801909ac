"""Replay a world with its history: `python -m tests.simulation.replay SEED | PLAN | FILE`, where a plan is the JSON that a violation prints."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tests.simulation import acts, endings
from tests.simulation.generation import plan_of
from tests.simulation.plan import Plan
from tests.simulation.run import Violation, run
from tests.simulation.shrink import Shrinker


def main() -> int:
    """Exit code 1: an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description=__doc__)
    parser.add_argument("world", type=read, help="a seed, a plan as JSON, or a file that holds one")
    parser.add_argument(
        "--shrink", action="store_true", help="look for the smallest plan that shows the violation first"
    )
    parser.add_argument("--quiet", action="store_true", help="without the history")
    arguments = parser.parse_args()
    plan = arguments.world
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
    """The world that a seed, a plan or a file names.

    Raises:
        ArgumentTypeError: there is no such world; what is wrong, in words.
    """
    if text.isdecimal():
        return plan_of(int(text))
    try:
        plan = Plan.from_json(text if text.startswith("{") else Path(text).read_text())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"neither a seed nor a plan, and no file: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise argparse.ArgumentTypeError(f"no plan: {where or 'the text'}: {first['msg']}") from None
    if problem := next(_problems(plan), None):
        raise argparse.ArgumentTypeError(f"no plan: {problem}")
    return plan


def _problems(plan: Plan) -> Iterator[str]:
    """What its parts say that has no meaning."""
    roots = {job.name.partition(".")[0] for job in plan.jobs}
    for act in plan.acts:
        if act.kind not in acts.KINDS:
            yield f"nobody can {act.kind!r}, only {', '.join(acts.KINDS)}"
        if act.job and act.job.partition(".")[0] not in roots:
            yield f"there is no job {act.job!r}"
    for kind in {ending.kind for job in plan.jobs for ending in job.endings} - endings.KINDS:
        yield f"no job ends with {kind!r}, only with {', '.join(sorted(endings.KINDS))}"


def report(violation: Violation) -> str:
    """What is wrong, in words, and the command that shows it again."""
    return f"{violation.text}\n  replay: {command(violation.plan)}"


def command(plan: Plan) -> str:
    return f".venv/bin/python -m tests.simulation.replay '{plan.to_json()}'"


if __name__ == "__main__":
    sys.exit(main())
