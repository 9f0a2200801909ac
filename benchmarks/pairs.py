"""Runs that take turns, and their ratios."""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

Timed = Callable[[], float]
"""Runs once, and returns its time in seconds."""


def parser(doc: str, runs: int) -> argparse.ArgumentParser:
    """Options of every benchmark, whose first line of text is `doc`'s."""
    options = argparse.ArgumentParser(description=doc.partition("\n")[0])
    options.add_argument("--json", action="store_true", help="one object on stdout, nothing else")
    options.add_argument(
        "--runs", type=int, default=runs, help="rounds that count (default: %(default)s)"
    )
    return options


def take_turns(
    ours: Timed, others: dict[str, Timed], runs: int
) -> tuple[list[float], dict[str, list[float]]]:
    """Run all sides in each round, in reverse order in every second one.

    So no side always follows the same one. A first round only fills the disk's cache.

    Returns:
        the seconds of our runs, and those of the others by name.
    """
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
    """The ratio of our time to the other's, over all rounds. Below 1, ours is faster."""
    each = [mine / other for mine, other in zip(ours, others, strict=True)]
    return {
        "ratio_median": round(statistics.median(each), 3),
        "ratio_min": round(min(each), 3),
        "ratio_max": round(max(each), 3),
        "runs": len(each),
        "ours_median_s": round(statistics.median(ours), 2),
        "other_median_s": round(statistics.median(others), 2),
    }


def show(
    title: str, measured: dict[str, dict[str, Any]], facts: dict[str, Any], *, as_json: bool
) -> None:
    """Print the ratios. The first comparison gives the benchmark's own figure."""
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
