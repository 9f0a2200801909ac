"""Long jobs on Spot: expected time, with checkpoints and without, beside the closed formulas.

    .venv/bin/python -m benchmarks.interruptions [--jobs 1000] [--json]

Interruptions come at random, so many hours apart on average. What follows each is what the product
decides (`core.settlement`, `core.claim`): the back-off, when a job leaves Spot, what counts.
All times are virtual, and the same figures come out each time. Assumed: a minute from the claim to
the first work, and five seconds for each save. On demand nothing is interrupted.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any, Final

from longhaul.core.claim import new_run, next_attempt
from longhaul.core.lease import Lease, State, job_key
from longhaul.core.message import JobMessage, Message
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings, Stage
from longhaul.core.settlement import after_verdict
from longhaul.core.verdict import OutcomeClass, Verdict

WORK_H: Final = (6, 24, 72)
BETWEEN_H: Final = (4, 8, 24)
PART_S: Final = 600.0
START_S: Final = 60.0
SAVE_S: Final = 5.0
_HOUR: Final = 3600.0
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_STAGE: Final = Stage(queue_url="https://queue", dead_letter_queue_url="https://dead", spot=True)
_TIMING: Final = LeaseSettings()


@dataclass(frozen=True)
class Course:
    """Of one job, in seconds: until its end, of its tasks on Spot, and of those on demand."""

    elapsed_s: float
    spot_s: float
    demand_s: float


def course(work_s: float, between_s: float, part_s: float | None, rng: random.Random) -> Course:
    """A job that stores each `part_s` seconds of its work; None: it stores nothing.

    Raises:
        RuntimeError: it came to no end.
    """
    row, now, done_s = _first_claim(), _NOW, 0.0
    tasks_s = {"FARGATE_SPOT": 0.0, "FARGATE": 0.0}
    while True:
        capacity = row.input.capacity
        left_s = work_s - done_s
        needed_s = START_S + left_s + _saves(left_s, part_s) * SAVE_S
        until_cut_s = rng.expovariate(1 / between_s) if capacity == "FARGATE_SPOT" else math.inf
        ran_s = min(needed_s, until_cut_s)
        tasks_s[capacity] += ran_s
        now += timedelta(seconds=ran_s)
        if needed_s <= until_cut_s:
            return Course((now - _NOW).total_seconds(), *tasks_s.values())
        if part_s is not None and (parts := int((ran_s - START_S) / (part_s + SAVE_S))) > 0:
            done_s += parts * part_s
            row = replace(row, saved_ref=f"{row.attempt.number}", saved_at=now)
        row = _next(row, now, rng)
        now = row.attempt.claimed_at


def _first_claim() -> Lease:
    request = JobRequest(job="sql", output="s3://data/out/")
    message = JobMessage(
        message_id="m",
        receipt_handle="h",
        receive_count=1,
        received_at=_NOW,
        sent_at=_NOW,
        first_sent_at=_NOW,
        request=request,
        key=job_key(_STAGE.name, "long"),
        content=Message("{}", {}),
    )
    return new_run(None, message, _STAGE, _TIMING, _NOW)


def _next(row: Lease, now: datetime, rng: random.Random) -> Lease:
    verdict = Verdict(OutcomeClass.INTERRUPTED, "Spot")
    released = after_verdict(row, verdict, _STAGE, _TIMING, now, rng).lease
    if released.state is not State.RELEASED or released.retry_at is None:
        raise RuntimeError(f"the job is {released.state}")
    return next_attempt(released, None, _TIMING, max(now, released.retry_at))


def _saves(work_s: float, part_s: float | None) -> int:
    return 0 if part_s is None else math.ceil(work_s / part_s)


def formula(work_s: float, between_s: float, part_s: float | None) -> float:
    """Expected time on Spot alone, as a ratio to the undisturbed one.

    A piece of `s` seconds that begins again after each interruption takes M (exp(s / M) - 1), M
    being the mean time between two. Without checkpoints the job is one piece, with its start.
    """
    undisturbed_s = START_S + work_s
    if part_s is None:
        return between_s * math.expm1(undisturbed_s / between_s) / undisturbed_s
    pieces, piece_s = _saves(work_s, part_s), part_s + SAVE_S
    # Each interruption also costs a start, which may be cut off itself.
    expected_s = (between_s + START_S) * math.expm1(piece_s / between_s) * pieces + START_S
    return expected_s / undisturbed_s


def figures(jobs: int) -> list[dict[str, Any]]:
    """One line for each amount of work and each time between interruptions."""
    lines = []
    for work_h in WORK_H:
        for between_h in BETWEEN_H:
            work_s, between_s = work_h * _HOUR, between_h * _HOUR
            line: dict[str, Any] = {"work_h": work_h, "between_h": between_h}
            for name, part_s in (("without", None), ("with", PART_S)):
                rng = random.Random(f"{work_h} {between_h} {name}")  # noqa: S311 - no secret
                courses = [course(work_s, between_s, part_s, rng) for _ in range(jobs)]
                mean_s = fmean(each.elapsed_s for each in courses)
                demand_s = fmean(each.demand_s for each in courses)
                all_s = demand_s + fmean(each.spot_s for each in courses)
                line[name] = {
                    "ratio": round(mean_s / (START_S + work_s), 3),
                    "on_demand": round(demand_s / all_s, 3),
                    "spot_alone_by_formula": round(formula(work_s, between_s, part_s), 3),
                }
            lines.append(line)
    return lines


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000, help="of each cell")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    for line in figures(options.jobs):
        text = json.dumps(line) if options.json else _said(line)
        sys.stdout.write(f"{text}\n")


def _said(line: dict[str, Any]) -> str:
    parts = [f"{line['work_h']:2} h, interrupted each {line['between_h']:2} h:"]
    for name in ("without", "with"):
        each = line[name]
        parts.append(
            f"{name} x{each['ratio']:.2f}, {each['on_demand']:.0%} on demand"
            f" (Spot alone, by the formula: x{each['spot_alone_by_formula']:.2f})"
        )
    return "  ".join(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
