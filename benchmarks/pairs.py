"""Runs that take turns, and what comes of them."""

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

Timed = Callable[[], float]
"""Runs once; answers seconds."""


def take_turns(ours: Timed, others: dict[str, Timed], runs: int) -> tuple[list[float], dict[str, list[float]]]:
    """Each round runs all, every second one in reverse, so that no side always comes after the same one. One round before is for the disk's cache alone."""
    sides = {"ours": ours, **others}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(runs + 1):
        for name in sorted(sides, reverse=bool(round_ % 2)):
            took = sides[name]()
            sys.stderr.write(f"round {round_}: {name} {took:.2f} s\n")
            if round_:
                seconds[name].append(took)
    return seconds.pop("ours"), seconds


def ratios(ours: Sequence[float], others: Sequence[float]) -> dict[str, Any]:
    """Of the rounds, ours over the other's: below 1 is faster."""
    each = [mine / other for mine, other in zip(ours, others, strict=True)]
    return {
        "ratio_median": round(statistics.median(each), 3),
        "ratio_min": round(min(each), 3),
        "ratio_max": round(max(each), 3),
        "runs": len(each),
        "ours_median_s": round(statistics.median(ours), 2),
        "other_median_s": round(statistics.median(others), 2),
    }


def show(title: str, measured: dict[str, dict[str, Any]], facts: dict[str, Any], *, as_json: bool) -> None:
    """The first of the measured is the benchmark's own figure; the rest stand below `against`."""
    if as_json:
        first = next(iter(measured.values()))
        sys.stdout.write(json.dumps({**first, **facts, "against": measured}) + "\n")
        return
    lines = [title, *(f"  {name}: {value}" for name, value in facts.items())]
    for name, found in measured.items():
        spread = f"{found['ratio_min']:.2f} to {found['ratio_max']:.2f}, {found['runs']} rounds"
        seconds = f"{found['ours_median_s']} s against {found['other_median_s']} s"
        lines.append(f"  against {name}: {found['ratio_median']:.2f} ({spread}; {seconds})")
    sys.stdout.write("\n".join(lines) + "\n")
