"""Where a job comes from, when another job's success made it. It travels in the request, so that copies, redrives and dead letters keep it.

months ─ emits 12 ─► clean 0 … 11 ─ the output as the next input ─► … ─ joined ─► delays
         a group of 12               still in that group                the group is closed
"""

import hashlib
import re
from typing import Annotated

from pydantic import Field

from longhaul.settings import Model

MAX_GROUP = 5_000
"""Jobs that one job may emit into one stage: the request that joins them, with an input for each, must fit into a message."""

_MAX_DEPTH = 32  # fan-outs within fan-outs: never more than there are stages
_MAX_ROOT_CHARS = 60
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")


class Group(Model):
    """A job's place among those that one job emitted into one stage. What follows a job without being emitted stays in its group."""

    of: Annotated[str, Field(max_length=200)]  # key of the job that emitted
    run: int
    n: Annotated[int, Field(ge=0)]
    size: Annotated[int, Field(ge=0, le=MAX_GROUP)]

    @property
    def id(self) -> str:
        return f"{self.of}@{self.run}"


class Lineage(Model):
    root: Annotated[str, Field(max_length=200)]  # key of the job with which it began
    parent: Annotated[str, Field(max_length=200)]
    groups: Annotated[tuple[Group, ...], Field(max_length=_MAX_DEPTH)] = ()  # outermost first


def child_id(root: str, stage: str, parent: str, run: int, n: int | str) -> str:
    """The id of a job that follows: the same for the same cause, so that sending it again is a duplicate submission and does no harm.

    `root` and `parent` are keys. The root's own id comes first, cut and plain enough for a path, so that people see what belongs together.
    """
    digest = hashlib.sha256(f"{parent}\n{run}\n{n}".encode()).hexdigest()[:20]
    return f"{_NOT_PLAIN.sub('-', root.partition('#')[2])[:_MAX_ROOT_CHARS]}/{stage}/{digest}"
