"""What a job says of its work beside the output: what it returns, its rows, its metrics. Pure.

The commit writes it, so it is fenced as the output is: it is that of the attempt that committed.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_RESULT_BYTES: Final = 4_096
"""Of what a job returns, as compact JSON in ASCII: an item is billed by its kilobytes."""

MAX_METRICS: Final = 20
"""Each is a metric in CloudWatch that is paid for, for each job and stage."""

MAX_DATASETS: Final = 50
"""Datasets whose rows are kept apart: a row of the table has 400 KB."""

OTHERS: Final = "(others)"
"""The rows of all further datasets; no dataset has this name."""

OF_OUTPUTS: Final = "outputs."
"""How the datasets of a further output are named: `outputs.report`, `outputs.report/errors`."""

_MAX_DEPTH: Final = 20  # what reads it may be recursive
_MAX_COUNT: Final = 2**63 - 1
# Not `isfinite`, which raises for a larger integer. Both ways of comparing exclude NaN.
_MAX_METRIC: Final = sys.float_info.max
_METRIC: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
METRIC_RULE: Final = "a letter, then letters, digits, _, . and -, at most 64"
_MAX_NAME_CHARS: Final = 64
_MAX_TITLE_CHARS: Final = len(OF_OUTPUTS) + 2 * _MAX_NAME_CHARS + len("/")
_MAX_PROBLEM_CHARS: Final = 300


@dataclass(frozen=True)
class Results:
    """What is kept beside the output of a success.

    `value`: what the job returned, as JSON has it. `problem`: why that is not kept. `rows`: exact
    numbers by dataset, where they are known; `.` is the output itself, `outputs.NAME` one of that
    name. `metrics`: by name.
    """

    value: Any = None
    problem: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return self != NOTHING

    def rows_of(self, output: str = "") -> dict[str, int]:
        """Those of one output by its datasets: of the main one, or of one by its name."""
        if not output:
            return {
                name: count
                for name, count in self.rows.items()
                if name != OTHERS and not name.startswith(OF_OUTPUTS)
            }
        whole = f"{OF_OUTPUTS}{output}"
        return {
            "." if title == whole else title.removeprefix(f"{whole}/"): count
            for title, count in self.rows.items()
            if title == whole or title.startswith(f"{whole}/")
        }


NOTHING: Final = Results()


def results(
    value: object, rows: Iterable[tuple[str, int | None]], metrics: Mapping[str, float]
) -> Results:
    """The results of a job that has ended.

    A value that cannot be kept is left out with its reason, and fails nothing: the output is there,
    and each further attempt would return the same. `rows` are names of datasets with their numbers,
    None where it is unknown; a dataset in parts comes several times.
    """
    kept, problem = kept_value(value)
    return Results(kept, problem, _summed(rows), dict(metrics))


def kept_value(value: object) -> tuple[Any, str | None]:
    """The value as JSON has it, and None; or None, and why it is not kept."""
    try:
        text = _compact(value)
    except (TypeError, ValueError, RecursionError):
        return None, f"{type(value).__name__} is no JSON, or holds what is none"
    if len(text) > MAX_RESULT_BYTES:
        return None, f"it has {len(text):,} bytes of JSON; at most {MAX_RESULT_BYTES:,}"
    found = json.loads(text)
    if _depth(found) > _MAX_DEPTH:
        return None, f"it has more than {_MAX_DEPTH} levels"
    return found, None


def metric_problem(name: str) -> str | None:
    """Why no metric can have that name, in words; None when it can."""
    if _METRIC.fullmatch(name):
        return None
    return f"{name[:_MAX_NAME_CHARS]!r} is no name of a metric: {METRIC_RULE}"


def read_results(stored: Mapping[str, Any]) -> Results:
    """Results as a row has them. A job's own code may have written anything there."""
    value, problem = kept_value(stored.get("value"))
    said, rows, metrics = (stored.get(name) for name in ("problem", "rows", "metrics"))
    return Results(
        value,
        said[:_MAX_PROBLEM_CHARS] if isinstance(said, str) else problem,
        {
            name: count
            for name, count in _few(rows, MAX_DATASETS + 1, _MAX_TITLE_CHARS)
            if type(count) is int and 0 <= count <= _MAX_COUNT
        },
        {
            name: value
            for name, value in _few(metrics, MAX_METRICS, _MAX_NAME_CHARS)
            if type(value) in (int, float)
            and -_MAX_METRIC <= value <= _MAX_METRIC
            and not metric_problem(name)
        },
    )


def _few(stored: object, most: int, chars: int) -> list[tuple[str, Any]]:
    items = stored.items() if isinstance(stored, dict) else ()
    return [(name, value) for name, value in items if len(name) <= chars][:most]


def _summed(rows: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    """By dataset; of one with a part whose rows are unknown there is no number."""
    counts: dict[str, int] = {}
    unknown = set[str]()
    for name, count in rows:
        if count is None:
            unknown.add(name)
        else:
            counts[name] = counts.get(name, 0) + count
    known = [(name, count) for name, count in counts.items() if name not in unknown]
    if len(known) <= MAX_DATASETS:
        return dict(known)
    others = sum(count for _, count in known[MAX_DATASETS:])
    return {**dict(known[:MAX_DATASETS]), OTHERS: others}


def _depth(value: object) -> int:
    """Levels of lists and objects; a plain value has none."""
    depth, level = 0, [value]
    while level := [
        each
        for parent in level
        if isinstance(parent, list | dict)
        for each in (parent.values() if isinstance(parent, dict) else parent) or (None,)
    ]:
        depth += 1
    return depth


# Escaped to ASCII: a half of a surrogate pair is no text that AWS takes.
_compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
