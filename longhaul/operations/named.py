"""What people name: a job or a backfill, by its id, its label, or how one of these begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from longhaul.core.errors import InvalidRequestError
from longhaul.core.lease import Lease, State, job_key
from longhaul.core.request import JOB_ID_RULE, parse_job_id
from longhaul.operations.errors import AmbiguousJobError, NoSuchJobError
from longhaul.operations.find import Ages
from longhaul.operations.view import name_of
from longhaul.operations.wait import Awaited
from longhaul.pipelines.backfill import Backfill
from longhaul.pipelines.trees import TreeJob

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack

_LOOKED_AT: Final = 1000
"""Ended jobs among which a label or the beginning of an id is looked for: ten calls."""
_SHOWN: Final = 5
_NONE: Final[Mapping[str, Lease]] = MappingProxyType({})


@dataclass(frozen=True)
class Work:
    """A job by its row, or a backfill with all its jobs."""

    key: str
    row: Lease | None
    backfill: Backfill | None = None

    @property
    def is_mark(self) -> bool:
        """Whether nothing is known but a cancel, which came before any message."""
        return self.row is not None and self.row.is_open_mark

    @property
    def awaited(self) -> list[Awaited]:
        """What to wait for until it has ended."""
        if self.backfill is not None:
            return [Awaited(key, None, None) for key in self.backfill.job_keys()]
        return [Awaited(self.key, self.found.fingerprint, None)]

    @property
    def left(self) -> str:
        """Of a backfill: how much of it was not sent, in words; empty where all was."""
        backfill = self.backfill
        if backfill is None or not backfill.unsent:
            return ""
        why = "still to be sent: start its command again"
        why = why if backfill.is_sending else "not sent: it was cancelled"
        return f"{backfill.unsent:,} more were {why}"

    def tree(
        self, stack: "Stack", known: Mapping[str, Lease] = _NONE, *, only: bool = False
    ) -> TreeJob:
        """All that belongs to it, from itself downwards; `known` as of `Trees.walk`.

        `only`: of a job itself alone.
        """
        if self.backfill is not None:
            return stack.trees.walk_backfill(self.backfill, known)
        return TreeJob(self.key, self.row) if only else stack.trees.walk(self.found, known)

    def cancel(self, stack: "Stack") -> list[Lease]:
        """Cancel it with all that descends from it; returns the rows of what was open."""
        if self.backfill is not None:
            return stack.tree_canceller.cancel_backfill(self.backfill)
        return stack.tree_canceller.cancel(self.found)

    @property
    def found(self) -> Lease:
        """The row of the job.

        Raises:
            AmbiguousJobError: it is a backfill.
        """
        if self.row is None:
            name = self.key.partition("#")[2]
            raise AmbiguousJobError(
                f"{name} is a backfill: name one of its jobs, which `longhaul status {name}` shows"
            )
        return self.row


def _may_be_id(text: str) -> bool:
    try:
        parse_job_id(text)
    except InvalidRequestError:
        return False
    return True


def checked_id(text: str) -> str:
    """A job id as it was typed.

    Raises:
        InvalidRequestError: no job can have that id.
    """
    if not _may_be_id(text):
        raise InvalidRequestError([f"{text!r} is no job id: {JOB_ID_RULE}"])
    return text


def find_at(stack: "Stack", key: str) -> Work | None:
    """The job of a key; a name that no job has may be a backfill's."""
    stage, _, job_id = key.partition("#")
    return next(iter(_with_id(stack, job_id, [stage])), None)


def find_work(stack: "Stack", text: str, stage: str | None, *, is_whole: bool = False) -> Work:
    """The job or the backfill that was typed: by id or name, by label, or by how one begins.

    `is_whole`: not by how one begins. A typo must not act on another job.

    Raises:
        NoSuchJobError: nothing is known of it.
        AmbiguousJobError: it means several.
    """
    stages = [each.name for each in stack.stages(stage)]
    exact, seen = _look(stack, text, stages)
    begins = [
        Work(row.key, row)
        for row in (seen if text and not is_whole else ())
        if row.job_id.startswith(text) or (row.label or "").startswith(text)
    ]
    # A mark: a cancel of the id before anything was sent.
    return _only_one(text, _named(text, exact, seen) or exact or begins)


def find_certain(stack: "Stack", text: str, stages: Sequence[str]) -> Work | None:
    """The job of that id, the backfill of that name, or the job of a label that is no id.

    Raises:
        AmbiguousJobError: it means several, as a label does that may be the id of a queued job.
    """
    exact, seen = _look(stack, text, stages)
    called = _named(text, exact, seen)
    if called and called[0] not in exact and _may_be_id(text):
        raise AmbiguousJobError(
            f"{text} is the label of {called[0].key.partition('#')[2]}, and may be the id of a job"
            " that is queued: give the id of the one that is meant"
        )
    return _only_one(text, called) if called else None


def _look(stack: "Stack", text: str, stages: Sequence[str]) -> tuple[list[Work], list[Lease]]:
    """What has the id, marks too; and where that is no job, the jobs among which a name is sought.

    They are the open jobs, and those that ended last.
    """
    exact = _with_id(stack, text, stages)
    if any(not each.is_mark for each in exact):
        return exact, []
    ended = islice(stack.jobs.ended(stages, tuple(State), Ages()), _LOOKED_AT)
    return exact, [*stack.jobs.unfinished(stages), *ended]


def _named(text: str, exact: Sequence[Work], seen: Sequence[Lease]) -> list[Work]:
    if found := [each for each in exact if not each.is_mark]:
        return found
    called = [row for row in seen if name_of(row) == text]
    return [Work(row.key, row) for row in called or seen if text in (row.label, name_of(row))]


def _with_id(stack: "Stack", text: str, stages: Sequence[str]) -> list[Work]:
    """The jobs of that id, or the backfills of that name, or cancel marks."""
    if not _may_be_id(text):  # it may be a label
        return []
    rows = stack.jobs.find(stages, text)
    works = [Work(row.key, row) for row in rows]
    if works and not works[0].is_mark:
        return works
    backfills = stack.parts.backfills.find_backfills(job_key(each, text) for each in stages)
    return [Work(key, None, each) for key, each in backfills.items()] or works


def _only_one(name: str, works: Sequence[Work]) -> Work:
    if not works:
        raise NoSuchJobError(
            f"nothing is known of job {checked_id(name)}: it may still be queued, its message may"
            " have been invalid (`longhaul dlq list`), or it was never sent"
        )
    parts = [each.key.split("#", 1) for each in works]
    if len({job_id for _, job_id in parts}) > 1:
        found = ", ".join(f"{job_id} ({stage})" for stage, job_id in parts[:_SHOWN])
        more = f" and {len(works) - _SHOWN} more" if len(works) > _SHOWN else ""
        raise AmbiguousJobError(
            f"{name} means several jobs: {found}{more}: name one by its id, or with --stage"
        )
    if len(works) > 1 and not works[0].is_mark:
        stages = ", ".join(sorted(stage for stage, _ in parts))
        raise AmbiguousJobError(f"{name} is in several stages ({stages}): name one with --stage")
    return works[0]
