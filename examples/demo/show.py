"""The demo's display while it runs."""

import time
from collections.abc import Sequence

from rich.console import Console

from examples.demo.watch import WatchedJob


class Show:
    """A line for each change of a job's state or attempt, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._seen: dict[str, tuple[str, int]] = {}

    def say(self, text: str) -> None:
        self._console.print(
            f"{time.monotonic() - self._started:6.1f}s  {text}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def update(self, jobs: Sequence[WatchedJob]) -> None:
        for job in jobs:
            now = (job.state, job.lease.attempt.number if job.lease else 0)
            if self._seen.get(job.key) != now and job.lease:
                self._seen[job.key] = now
                beats = f", {job.lease.attempt.beats} beats" if job.lease.state.is_terminal else ""
                why = (
                    f" ({job.lease.last_class}: {job.lease.last_error})"
                    if job.state in ("RELEASED", "DEAD")
                    else ""
                )
                size = f", {job.lease.input.size}" if job.state == "RUNNING" else ""
                self.say(
                    f"{job.label:16} {job.state:9} attempt {job.lease.attempt.number}"
                    f"{size}{beats}{why}"
                )
