"""Where a job comes from, when another job's success made it. Pure.

It is part of the request, so copies, redrives and dead letters keep it.

The row of a tree's first job, its root, has a watch while the tree may still end. So a sweep finds
it, and what ends again later begins it again. Decision 0027 says why so.

months ─ emits 12 ─► clean 0 … 11 ─ the output as the next input ─► … ─ joined ─► delays
         a group of 12               a group of one in that group       the place of months again
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from longhaul.core.settings import Model, StageName

MAX_GROUP = 5_000
"""Jobs that one job may emit into one stage."""

MAX_OPENED = 32
"""Joins that may belong to the jobs of one stage."""

_MAX_CARRIED = 32  # groups that a lineage may carry at all
_MAX_ROOT_CHARS = 60
_DIGEST_CHARS = 20
_MAX_RUN = 10**15  # a run is a time in epoch milliseconds

# A sender can write a lineage too: what no key is would be refused by the table's indexes.
JobKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}#[A-Za-z0-9._/:-]{1,128}$")]
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")


Emitted = Mapping[str, Sequence[Mapping[str, Any]]]
"""The requests that a job emitted, by stage: a body's fields without `job_id` and `lineage`.

A stage with an empty list was named on purpose: the job emitted none for it.
"""


class _Carried(Model):
    """Written by one version and read by another: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Group(_Carried):
    """A job's place among those that one job emitted into one stage.

    Behind the opener of a join each job adds one, so that the join can tell all places apart: a job
    that follows without being emitted, and a join, is the only one of its group. Elsewhere such a
    job stays in its parent's group.
    """

    of: JobKey  # of the job that emitted
    run: Annotated[int, Field(ge=0, le=_MAX_RUN)]
    n: Annotated[int, Field(ge=0)]
    size: Annotated[int, Field(ge=0, le=MAX_GROUP)]
    # The joins that belong to the job that emitted, as its row has them. None: there are none.
    opens: Annotated[tuple[StageName, ...], Field(min_length=1, max_length=MAX_OPENED)] | None = (
        None
    )


class Lineage(_Carried):
    root: JobKey  # of the job with which it began
    parent: JobKey
    # Of the parent, whose success led here; of a join: how often what it waits for has changed. A
    # later one starts a later run of this job.
    run: Annotated[int, Field(ge=0, le=_MAX_RUN)] = 0
    # Outermost first. At the first wrong one validation ends: a message has room for 300,000, and
    # their problems would fill the dispatcher's memory.
    groups: Annotated[tuple[Group, ...], Field(max_length=_MAX_CARRIED, fail_fast=True)] = ()
    # Of a job that its parent's success sent: what only the parent's row knows beside it.
    seal: Annotated[str, Field(max_length=64)] | None = None
    # Of a join: key of the object with its inputs. They may be more than a message holds.
    inputs_ref: Annotated[str, Field(max_length=200)] | None = None


def child_id(root: str, stage: str, parent: str, n: int | str) -> str:
    """The id of a job that follows: the same for the same place, in each run of its parent.

    So a repeat is a duplicate, and what a later run leads to runs again in its place. `root` and
    `parent` are keys. The root's own id comes first, cut and plain enough for a path, so
    that people see which jobs belong together.
    """
    digest = hashlib.sha256(f"{parent}\n{n}".encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{_NOT_PLAIN.sub('-', root.partition('#')[2])[:_MAX_ROOT_CHARS]}/{stage}/{digest}"


def is_child_id(job_id: str, stage: str) -> bool:
    """Whether the id has the form of those that `child_id` makes for the stage."""
    match job_id.split("/"):
        case [_, of, digest]:
            is_digest = len(digest) == _DIGEST_CHARS and set(digest) <= set("0123456789abcdef")
            return of == stage and is_digest
    return False


@dataclass(frozen=True)
class TreeWatch:
    """What the row of a root knows of its tree.

    Attributes:
        ends: How often the tree may have ended: the root's success is the first time, and each job
            of it that may have ended before raises it when it ends again.
        told: `ends` when an end was told last.
        waits_for: Key of a job of it that went on at the last look.
        stored: As the row has it, which a write compares: a newer version, before a rollback, may
            have written more than this one knows.
    """

    ends: int
    told: int = 0
    waits_for: str | None = None
    stored: Annotated[str | None, Field(exclude=True)] = field(default=None, compare=False)

    @property
    def is_due(self) -> bool:
        return self.ends > self.told


def begun(watch: TreeWatch | None) -> TreeWatch:
    """The watch of a root whose tree may end, or end once more."""
    return TreeWatch(watch.ends + 1, watch.told) if watch else TreeWatch(1)
