"""What a world's history says."""

from simulation.worlds.plan import Plan
from simulation.worlds.run import run


def history(plan: Plan) -> list[str]:
    """The lines of a world that violates nothing."""
    lines: list[str] = []
    assert run(plan, trace=lines.append).violation is None
    return lines


def happened(plan: Plan, *words: str) -> list[str]:
    """The lines with one of the words, without their times."""
    found = (line for line in history(plan) if any(word in line for word in words))
    return [line.split(maxsplit=1)[1] for line in found]
