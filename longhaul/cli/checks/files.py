"""Inputs on this machine's disk, before a request goes to an embedded AWS that has the same."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from longhaul.domain.paths import DataPath, is_glob
from longhaul.operations.submission import Problem, Submission


def missing_files(submissions: Sequence[Submission]) -> Iterator[Problem]:
    """A problem for each input `file:///…` that is not there. What a glob matches is not asked."""
    for each in submissions:
        for name, text in each.request.inputs.items():
            if not text.startswith("file:"):
                continue
            path = DataPath.of(text)
            if not is_glob(path.key) and not Path(path.key).exists():
                yield Problem(each.position, f"inputs.{name}: there is no file {path}")
