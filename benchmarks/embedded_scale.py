"""Many jobs without Spark that run at once on the embedded AWS: starts, late beats, memory.

.venv/bin/python -m benchmarks.embedded_scale [--jobs 500] [--for-s 120] [--json]
"""

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from benchmarks.embedded_stack import STAGE, running_stack
from benchmarks.timed_work import Work
from longhaul.domain.beat import interval_s
from longhaul.settings import LeaseSettings

_LOOKS_EVERY_S = 1
_PATIENCE_S = 1_800
_LEASE = LeaseSettings()


def scaled(jobs: int, for_s: float) -> dict[str, Any]:
    """Figures of so many jobs that run at once for at least `for_s` seconds.

    Raises:
        TimeoutError: they did not all begin.
    """
    with (
        tempfile.TemporaryDirectory(prefix="scale-") as folder,
        running_stack(Path(folder), slots=jobs) as stack,
    ):
        before = _memory()
        sent_at = time.time()
        stack.send(*(Work(f"job-{n}", _PATIENCE_S) for n in range(jobs)))
        while len(begun := stack.events()) < jobs:
            if time.time() - sent_at > _PATIENCE_S:
                raise TimeoutError(f"{len(begun)} of {jobs} jobs began")
            time.sleep(_LOOKS_EVERY_S)
        time.sleep(for_s)
        rows = stack.leases.load_many(f"{STAGE}#{each['id']}" for each in begun)
        late = [part for row in rows.values() for part in lateness(row.attempt.beat_ages_s)]
        return {
            "jobs": jobs,
            "last_execution_s": round(stack.started_at[jobs - 1] - sent_at, 1),
            "last_task_s": round(max(each["at"] for each in begun) - sent_at, 1),
            "beats": len(late),
            "beats_later_than_their_interval": sum(each > 1 for each in late),
            "latest_beat_of_interval": round(max(late), 2),
            "mb_per_job_of_the_aws": round((_memory() - before) / jobs / 1e6, 2),
        }


def lateness(ages_s: Sequence[float]) -> list[float]:
    """How late each beat after an attempt's first one came, as a part of its interval.

    Args:
        ages_s: Of the attempt at its beats, in their order, in whole seconds.
    """
    waits_s = (interval_s(age_s, _LEASE) for age_s in ages_s)
    return [
        (age_s - before_s - wait_s) / wait_s
        for (before_s, age_s), wait_s in zip(pairwise(ages_s), waits_s, strict=False)
    ]


def _memory() -> int:
    """Bytes of this process: the embedded AWS without its children."""
    rss: int = psutil.Process().memory_info().rss
    return rss


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--for-s", type=float, default=120)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    figures = scaled(options.jobs, options.for_s)
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in figures.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
