"""What was tried, and what need not be noticed: a file of results, and the list of reasons."""

import json
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from simulation.tools.mutation.operators import Mutation

Key = tuple[str, str, int]
_REASONS = Path(__file__).with_name("equivalent.toml")


class Work(NamedTuple):
    file: str
    mutation: Mutation

    @property
    def key(self) -> Key:
        """The same as long as its function's text is, wherever that stands in the file."""
        scope = f"{self.mutation.scope}\n{self.mutation.around}"
        return self.file, sha256(scope.encode()).hexdigest()[:16], self.mutation.number

    @property
    def reason_key(self) -> tuple[str, str]:
        each = self.mutation
        return f"{self.file} {each.scope}".strip(), f"{each.old} -> {each.new}"


class Result(NamedTuple):
    """The last attempt at one change.

    Attributes:
        stage: "tests" or "worlds", where it was noticed.
        passed: Digests of the test files that have not noticed it.
        world_s: Seconds of CPU in worlds that have not noticed it.
    """

    stage: str
    outcome: str
    by: str
    passed: tuple[str, ...] = ()
    world_s: float = 0.0


NEVER_TRIED = Result("tests", "survived", "")


def read(state: Path) -> dict[Key, Result]:
    if not state.exists():
        return {}
    results: dict[Key, Result] = {}
    for line in state.read_text().splitlines():
        found: dict[str, Any] = json.loads(line)
        file, digest, number = found.pop("key")
        results[file, digest, number] = Result(**{**found, "passed": tuple(found["passed"])})
    return results


def add(state: Path, key: Key, result: Result) -> None:
    with state.open("a") as results:
        results.write(json.dumps({"key": key, **result._asdict()}) + "\n")


def reasons(path: Path = _REASONS) -> dict[tuple[str, str], str]:
    """Why a change need not be noticed, by where it is and what it changes."""
    listed = tomllib.loads(path.read_text())["change"]
    return {(each["in"], each["is"]): each["why"] for each in listed}


def outdated(work: Iterable[Work], listed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Entries of the list for which the code has no such change any more."""
    keys = {each.reason_key for each in work}
    files = {each.file for each in work}
    return [each for each in listed if each not in keys and each[0].split()[0] in files]
