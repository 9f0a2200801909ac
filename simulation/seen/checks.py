"""The table of invariants: when each is checked, what it says, and how."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, NamedTuple

Moment = Literal[
    "message added",
    "message removed",
    "mapping deletes",
    "dead letter",
    "handle used",
    "extension refused",
    "commit",
    "commit voided",
    "measured",
    "parents read",
    "upload aborted",
    "file shows",
    "files deleted",
    "manifest put",
    "table changed",
    "row written",
    "attempt ended",
    "pointer moved",
    "computed",
    "restored",
    "checkpoint read",
    "no longer owed",
    "slots written",
    "role passed",
    "execution started",
    "execution ended",
    "container began",
    "container over",
    "beat",
    "told",
    "tree told",
    "code failed",
    "the end",
]
"""What has just changed, or is about to; the check gets the thing itself."""

Check = Callable[..., str | None]


class Invariant(NamedTuple):
    code: str  # as in docs/internals/reliability.md: S1 to S25, L1 to L15
    says: str
    holds: Check


TABLE: dict[Moment, list[Invariant]] = {}


def invariant(code: str, moment: Moment, says: str) -> Callable[[Check], Check]:
    """Enter a check into the table. It returns what is wrong, in words, or None."""

    def enter(holds: Check) -> Check:
        TABLE.setdefault(moment, []).append(Invariant(code, says, holds))
        return holds

    return enter


class Violated(NamedTuple):
    """An invariant that did not hold, and how and when."""

    code: str
    says: str
    how: str
    at: datetime

    def __str__(self) -> str:
        at = self.at.isoformat(timespec="milliseconds")
        return f"{self.code}: {self.says}\n  but at {at}: {self.how}"
