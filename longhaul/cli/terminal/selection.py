"""The jobs that a command means: one by its name, or the open ones and those that ended lately."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice

from longhaul.cli.display.job import name_of
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.insight.timeline import Lane, lane
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.pairs import pairs
from longhaul.domain.backfill import Backfill
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.labels import Names
from longhaul.domain.lease import Lease, State, job_key
from longhaul.domain.request import JOB_ID_RULE, parse_job_id
from longhaul.operations.find import Ages

_USUAL = timedelta(days=7)
_PAGE = 100
_LOOKED_AT = 1000
"""Ended jobs among which a label or the beginning of an id is looked for: ten calls."""
_SHOWN = 5


def job_id(text: str) -> str:
    """A job id as it was typed.

    Raises:
        CommandError: no job can have that id.
    """
    try:
        return parse_job_id(text)
    except InvalidRequestError:
        raise CommandError(f"{text!r} is no job id: {JOB_ID_RULE}", ExitStatus.USAGE) from None


def find_job(target: Target, text: str, stage: str | None) -> Lease:
    """The row of the job that was typed.

    Raises:
        CommandError: nothing is known of it, or it means several jobs, or those of a backfill.
    """
    found = find_work(target, text, stage)
    if isinstance(found, Backfill):
        raise CommandError(
            f"{text} is a backfill: name one of its jobs, which `longhaul status {text}` shows",
            ExitStatus.USAGE,
        )
    return found


def find_work(target: Target, text: str, stage: str | None) -> Lease | Backfill:
    """The job or the backfill that was typed: by id or name, by label, or by how one begins.

    Raises:
        CommandError: nothing is known of it, or it means several.
    """
    stages = [each.name for each in target.stages(stage)]
    # A mark: a cancel of the id before anything was sent.
    return find_named(target, text, stages) or _only_one(
        text,
        _with_id(target, text, stages)
        or [
            row
            for row in _seen(target, stages)
            if text and (row.job_id.startswith(text) or (row.label or "").startswith(text))
        ],
    )


def find_named(target: Target, text: str, stages: Sequence[str]) -> Lease | Backfill | None:
    """The job of that id, the backfill of that name, or the job of that label.

    A job of a pipeline may be called as lists show it, such as `2026-10-05/clean`.

    Raises:
        CommandError: it means several.
    """
    rows = [row for row in _with_id(target, text, stages) if not row.is_open_mark]
    if not rows and (backfill := _backfill(target, text, stages)):
        return backfill
    rows = rows or _called(target, text, stages)
    return _only_one(text, rows) if rows else None


def _backfill(target: Target, name: str, stages: Iterable[str]) -> Backfill | None:
    found = target.parts.backfills.find_backfills(job_key(each, name) for each in stages)
    if len(found) > 1:
        names = ", ".join(sorted(each.stage for each in found.values()))
        raise CommandError(
            f"backfill {name} is in several stages ({names}): name one with --stage",
            ExitStatus.USAGE,
        )
    return next(iter(found.values()), None)


def _with_id(target: Target, text: str, stages: Sequence[str]) -> list[Lease]:
    try:
        return target.jobs.find(stages, parse_job_id(text))
    except InvalidRequestError:  # it may be a label
        return []


def _called(target: Target, text: str, stages: Sequence[str]) -> list[Lease]:
    seen = list(_seen(target, stages))
    named = [row for row in seen if name_of(row) == text]
    return named or [row for row in seen if row.label == text]


def _seen(target: Target, stages: Sequence[str]) -> Iterator[Lease]:
    """The open jobs, and those that ended last."""
    yield from target.jobs.unfinished(stages)
    yield from islice(target.jobs.ended(stages, tuple(State), Ages()), _LOOKED_AT)


def _only_one(name: str, rows: Sequence[Lease]) -> Lease:
    if not rows:
        raise CommandError(
            f"nothing is known of job {job_id(name)}: it may still be queued, its message may have "
            "been invalid (`longhaul dlq list`), or it was never sent",
            ExitStatus.NOT_FOUND,
        )
    if len({row.job_id for row in rows}) > 1:
        found = ", ".join(f"{row.job_id} ({row.stage})" for row in rows[:_SHOWN])
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        raise CommandError(
            f"{name} means several jobs: {found}{more}: name one by its id, or with --stage",
            ExitStatus.USAGE,
        )
    if len(rows) > 1 and not rows[0].is_open_mark:
        names = ", ".join(sorted(row.stage for row in rows))
        raise CommandError(
            f"job {name} is in several stages ({names}): name one with --stage", ExitStatus.USAGE
        )
    return rows[0]


def select_lanes(
    out: Output,
    target: Target,
    *,
    stage: str | None,
    older_than: timedelta | None,
    newer_than: timedelta | None,
    most: int,
) -> list[Lane]:
    """The open jobs and those that ended within the ages, by default the last seven days.

    Says on stderr what is left out.
    """
    if older_than is None and newer_than is None:
        newer_than = _USUAL
        out.note("open jobs, and those that ended within 7 days (--newer-than, --older-than)")
    names = [each.name for each in target.stages(stage)]
    ages, now = Ages(older_than, newer_than), target.parts.clock.now()
    unfinished = [row for row in target.jobs.unfinished(names) if ages.include(row, now)][
        : most + 1
    ]
    ended = list(islice(target.jobs.ended(names, tuple(State), ages), most + 1 - len(unfinished)))
    rows = [*unfinished, *ended]
    if len(rows) > most:
        out.note(f"there are more than {most} jobs: raise --most, or filter", style="yellow")
    return list(lanes_of(target, rows[:most]))


def lanes_of(target: Target, rows: Iterable[Lease]) -> Iterator[Lane]:
    """The jobs with all their remembered attempts, read a hundred jobs at a time."""
    wanted = iter(rows)
    while page := list(islice(wanted, _PAGE)):
        attempts = target.parts.leases.history(page)
        yield from (lane(row, attempts[row.key]) for row in page)


def names_wanted(label: str | None, tags: Sequence[str] | None) -> Names:
    """The filter that `--label` and `--tag` describe.

    Raises:
        CommandError: a tag is no NAME=GLOB, or comes twice.
    """
    return Names(label, tuple(pairs("--tag", tags).items()))
