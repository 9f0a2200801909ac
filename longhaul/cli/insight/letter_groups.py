"""Dead letters that died of the same. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from longhaul.domain.lease import Lease
from longhaul.operations.letter import DeadLetter
from longhaul.operations.rerun import why_not

_OWN: Final = re.compile(r"""(?:s3|table)://\S+|'[^']*'|"[^"]*"|\d[\d.,:TZ-]*""")
"""What is a job's own in a reason: paths, quoted values, numbers and times."""


@dataclass(frozen=True)
class LetterGroup:
    """Letters of one class, whose reasons differ in what is a job's own alone.

    `again`: the keys of the jobs that are still dead of it, and can run again.
    """

    kind: str
    why: str  # with … for that
    letters: int
    again: Sequence[str]


def grouped(letters: Iterable[DeadLetter], rows: Mapping[str, Lease]) -> list[LetterGroup]:
    """The groups, the largest first; `rows`: of their jobs, by their ids."""
    found: dict[tuple[str, str], list[DeadLetter]] = {}
    for letter in letters:
        why = _OWN.sub("…", letter.reason.reason if letter.reason else "")
        found.setdefault((letter.kind, why), []).append(letter)
    groups = []
    for (kind, why), members in found.items():
        known = (rows.get(letter.job_id or "") for letter in members)
        # A job that has run again has the letter of each time that it died.
        again = {row.key for row in known if row and row.last_class == kind and not why_not(row)}
        groups.append(LetterGroup(kind, why, len(members), sorted(again)))
    return sorted(groups, key=lambda group: -group.letters)
