"""What was tried, and what need not be noticed: a file of results, and the list of reasons."""

import json
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from simulation.tools.mutation.operators import Mutation

Key = tuple[str, str, int]
Place = tuple[str, str, int, str]  # file, text of a line, which line of this text, what is changed
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
    def place(self) -> Place:
        each = self.mutation
        return self.file, each.code, each.equal_line, f"{each.old} -> {each.new}"


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


def reasons(path: Path = _REASONS) -> dict[Place, str]:
    """Why a change need not be noticed. Of equal lines, `nth` says which; alone or first: 1."""
    return {
        (each["file"], each["line"], each.get("nth", 1), change): each["why"]
        for each in tomllib.loads(path.read_text())["equivalent"]
        for change in each["changes"]
    }


def outdated(work: Iterable[Work], listed: Iterable[Place]) -> list[Place]:
    """Entries of the list for which the code has no such change any more."""
    places = {each.place for each in work}
    files = {each[0] for each in places}
    return [each for each in listed if each not in places and each[0] in files]
