"""The jobs that a question about many is asked of: what is open, and what ended lately."""

from datetime import timedelta
from itertools import islice
from typing import Annotated

import typer

from console.options import MANY
from console.output import Output
from console.target import Target
from longhaul.domain.lease import State
from longhaul.domain.timeline import Lane
from longhaul.jobs import Ages

_USUAL = timedelta(days=7)

Most = Annotated[
    int, typer.Option("--most", min=1, max=MANY, help="How many jobs at the most: open ones, then the latest.")
]


def recorded(
    out: Output,
    target: Target,
    *,
    stage: str | None,
    older_than: timedelta | None,
    newer_than: timedelta | None,
    most: int,
) -> list[Lane]:
    """What is open and what ended in the last seven days, or within the ages that were given, with all attempts; says on stderr what was left out."""
    if older_than is None and newer_than is None:
        newer_than = _USUAL
        out.note("open jobs, and those that ended within 7 days (--newer-than, --older-than)")
    names = [each.name for each in target.stages(stage)]
    ages, now = Ages(older_than, newer_than), target.parts.clock.now()
    unfinished = [row for row in target.jobs.unfinished(names) if ages.include(row, now)][: most + 1]
    ended = list(islice(target.jobs.ended(names, tuple(State), ages), most + 1 - len(unfinished)))
    found = [*unfinished, *ended]
    if len(found) > most:
        out.note(f"there are more than {most} jobs: raise --most, or filter", style="yellow")
    return list(target.jobs.lanes(found[:most]))
