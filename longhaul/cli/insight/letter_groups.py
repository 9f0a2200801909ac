"""Dead letters that died of the same. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from longhaul.operations.letter import DeadLetter

_OWN: Final = re.compile(r"""(?:s3|table)://\S+|'[^']*'|"[^"]*"|\d[\d.,:TZ-]*""")
"""What is a job's own in a reason: paths, quoted values, numbers and times."""


@dataclass(frozen=True)
class LetterGroup:
    """Letters of one class, whose reasons differ in what is a job's own alone."""

    kind: str
    why: str  # with … for that
    letters: Sequence[DeadLetter]


def grouped(letters: Iterable[DeadLetter]) -> list[LetterGroup]:
    """The groups, the largest first."""
    found: dict[tuple[str, str], list[DeadLetter]] = {}
    for letter in letters:
        why = _OWN.sub("…", letter.reason.reason if letter.reason else "")
        found.setdefault((letter.kind, why), []).append(letter)
    groups = [LetterGroup(kind, why, members) for (kind, why), members in found.items()]
    return sorted(groups, key=lambda group: -len(group.letters))
