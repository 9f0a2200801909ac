"""Where data comes from: which attempt wrote an output, and what it had read. Pure.

    attempt ─ reads ─► inputs, each in a version      object: its ETag · files: a digest of them
       │                                              table: a snapshot · output: its writer too
       └─ writes ─► `_SUCCESS` of a prefix, or the summary of a table's snapshot: an `Origin`

`longhaul lineage` follows this upstream. It names places and versions, and neither parameters nor
filters: whoever may read the output can read it.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from longhaul.core.lease import AttemptId
from longhaul.core.places import is_table
from longhaul.core.results import NOTHING, Results, read_results
from longhaul.core.settings import Model

MAX_ORIGINS: Final = 50
"""Attempts that a manifest names: of more appends it names the latest."""

MAX_INPUTS: Final = 100
"""Inputs of an attempt that a manifest names."""

_MAX_CHARS: Final = 16_000
"""Characters of an attempt's inputs in a manifest."""

MAX_PROPERTY_CHARS: Final = 4_096
"""Characters of a property in a snapshot's summary: each later version of the table repeats it."""

_MAX_WRITERS: Final = 10  # of one input: a glob may match a thousand outputs
# A forged number must not make what follows from it one that no reader takes. No count is longer.
MAX_COUNT: Final = 2**63 - 1
# No key, id or token is longer.
MAX_TEXT: Final = 2_048

JOB: Final = "longhaul.job"
"""In a snapshot's summary: the key of the job. A token has only its hash. So the further ones."""
RUN: Final = "longhaul.run"
ATTEMPT: Final = "longhaul.attempt"
AT: Final = "longhaul.at"
INPUTS: Final = "longhaul.inputs"
LEFT_OUT: Final = "longhaul.inputs-left-out"
RESULTS: Final = "longhaul.results"

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class ByAttempt(Model):
    """What an attempt wrote."""

    key: Text
    run: Count
    attempt: Count

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt)


class Writer(ByAttempt):
    """The attempt that wrote what was read at a place, an output's prefix or a table."""

    place: Text


class InputRead(Model):
    """An input, in the version that an attempt read.

    `path` is without a table's filter. `digest` is the same only for the same objects or rows.
    """

    name: Text
    path: Text
    files: Count = 0
    size_bytes: Count = 0
    digest: Text = ""
    etag: Text | None = None  # of a single object
    snapshot: Count | None = None  # of a table
    # The attempts whose outputs these are, as their manifests or snapshots say. Of more than ten
    # they are the first.
    writers: Annotated[tuple[Writer, ...], Field(max_length=_MAX_WRITERS, fail_fast=True)] = ()

    @property
    def version(self) -> str:
        """What tells this version of the data from others."""
        if self.snapshot is not None:
            return str(self.snapshot)
        return self.etag.strip('"') if self.etag else self.digest


class Origin(ByAttempt):
    """An attempt that wrote part of an output, when it did, and what it had read."""

    at: datetime | None = None
    inputs: Annotated[tuple[InputRead, ...], Field(max_length=MAX_INPUTS, fail_fast=True)] = ()
    left_out: Count = 0  # further inputs, which are not named


def requested(name: str, path: str) -> InputRead:
    """An input of which only the request is known, without a table's filter."""
    return InputRead(name=name, path=path.partition("?")[0] if is_table(path) else path)


def few_writers(writers: Iterable[Writer]) -> tuple[Writer, ...]:
    """As many as an input names."""
    return tuple(writers)[:_MAX_WRITERS]


def origin(attempt: AttemptId, at: datetime, inputs: Iterable[InputRead]) -> Origin:
    """What an attempt says of its output, with as many inputs as a manifest takes."""
    kept, left_out = _few(inputs, MAX_INPUTS, _MAX_CHARS)
    return Origin(
        key=attempt.key,
        run=attempt.run,
        attempt=attempt.attempt,
        at=at,
        inputs=kept,
        left_out=left_out,
    )


def marks(origin: Origin, results: Mapping[str, Any] | None) -> dict[str, str]:
    """The properties of a snapshot's summary that say the same.

    Results that are longer than a property are left out.
    """
    inputs, left_out = _few(origin.inputs, MAX_INPUTS, MAX_PROPERTY_CHARS)
    found = {
        RUN: str(origin.run),
        ATTEMPT: str(origin.attempt),
        INPUTS: json.dumps([_plain(each) for each in inputs], separators=(",", ":")),
    }
    if origin.at is not None:
        found[AT] = origin.at.isoformat(timespec="milliseconds")
    if left_out + origin.left_out:
        found[LEFT_OUT] = str(left_out + origin.left_out)
    said = json.dumps(results, separators=(",", ":")) if results else ""
    if said and len(said) <= MAX_PROPERTY_CHARS:
        found[RESULTS] = said
    return found


def origin_in(summary: Mapping[str, str]) -> Origin | None:
    """What the summary of a snapshot says; None where Longhaul did not write it, or not readably.

    Others write tables too: nothing of it is trusted to have its form.
    """
    try:
        said = {
            "key": summary[JOB],
            "run": int(summary[RUN]),
            "attempt": int(summary[ATTEMPT]),
            "at": summary.get(AT),
            "inputs": json.loads(summary.get(INPUTS, "[]")),
            "left_out": int(summary.get(LEFT_OUT, "0")),
        }
        return Origin.model_validate(said, extra="ignore")
    except (KeyError, ValueError, RecursionError):
        return None


def results_in(summary: Mapping[str, str]) -> Results:
    """What the job of a snapshot returned, counted and measured."""
    try:
        said = json.loads(summary.get(RESULTS, "{}"))
    except (ValueError, RecursionError):
        return NOTHING
    return read_results(said) if isinstance(said, dict) else NOTHING


def _few(inputs: Iterable[InputRead], most: int, chars: int) -> tuple[tuple[InputRead, ...], int]:
    """As many of the first as are allowed, and the number of the others."""
    every = tuple(inputs)
    kept: list[InputRead] = []
    left = chars - len("[]")
    for each in every[:most]:
        left -= len(json.dumps(_plain(each), separators=(",", ":"))) + len(",")
        if left < 0:
            break
        kept.append(each)
    return tuple(kept), len(every) - len(kept)


def _plain(read: InputRead) -> dict[str, Any]:
    return read.model_dump(mode="json", exclude_defaults=True)
