"""The demo's display while it runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.watch import WatchedJob

_STYLES = {
    "QUEUED": "dim",
    "RUNNING": "cyan",
    "RELEASED": "yellow",
    "SUCCEEDED": "green",
    "DEAD": "red",
    "CANCELLED": "magenta",
}


class Show(Protocol):
    def update(self, jobs: Sequence[WatchedJob]) -> None: ...

    def say(self, text: str) -> None: ...


@contextmanager
def show_on(console: Console) -> Iterator[Show]:
    if not console.is_terminal:
        yield PlainLines(console)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield LiveTable(live)


class LiveTable:
    """A table with a row per job."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def say(self, text: str) -> None:
        self._live.console.print(text)

    def update(self, jobs: Sequence[WatchedJob]) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("job", "state", "attempt", "size", "progress", "", "beats", "time"):
            table.add_column(
                title, justify="right" if title in ("attempt", "beats", "time") else "left"
            )
        for job in jobs:
            table.add_row(*_cells(job))
        self._live.update(table)


class PlainLines:
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


def _cells(job: WatchedJob) -> list[Text | ProgressBar | str]:
    state = Text(job.state, style=_STYLES[job.state])
    lease = job.lease
    if lease is None:
        return [job.label, state, "", "", "", "", "", ""]
    fraction = (
        1.0 if job.state == "SUCCEEDED" else float(lease.attempt.progress.get("fraction") or 0)
    )
    bar = ProgressBar(total=1, completed=fraction, width=20)
    note = (
        ""
        if lease.state.is_terminal
        else str(lease.attempt.progress.get("note") or lease.attempt.progress.get("phase") or "")
    )
    return [
        job.label,
        state,
        str(lease.attempt.number),
        lease.input.size,
        bar,
        Text(note[:40]),
        str(job.beats),
        f"{job.seconds:.1f} s",
    ]
