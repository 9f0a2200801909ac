"""Which of the jobs a person wants to see."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from werkzeug.exceptions import BadRequest

from longhaul.domain.job_state import shown_state
from longhaul.domain.lease import Lease

STATES: Final = ("RUNNING", "RELEASED", "CANCELLING", "SUCCEEDED", "DEAD", "CANCELLED")
_FIELDS: Final = ("stage", "state", "text")
_MAX_CHARS: Final = 256


@dataclass(frozen=True)
class Filter:
    """Empty fields let all through.

    `text` is a part of a job's id, label, tags (`NAME=VALUE`) or error, in any case.
    """

    stage: str = ""
    state: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        """Whether anything is filtered."""
        return bool(self.query)

    @property
    def query(self) -> Mapping[str, str]:
        """What a link has to say to keep it."""
        given = {name: getattr(self, name) for name in _FIELDS}
        return {name: value for name, value in given.items() if value}

    def choose(self, rows: Iterable[Lease]) -> list[Lease]:
        """Those that it lets through, in their order."""
        text = self.text.lower()
        return [
            row
            for row in rows
            if self.stage in ("", row.stage)
            and self.state in ("", shown_state(row))
            and any(text in each.lower() for each in _texts(row))
        ]


def read_filter(given: Mapping[str, str]) -> Filter:
    """The filter in a query.

    Raises:
        BadRequest: a field has no such value.
    """
    read = Filter(**{name: given.get(name, "").strip() for name in _FIELDS})
    if any(len(value) > _MAX_CHARS for value in read.query.values()):
        raise BadRequest(f"a filter has {_MAX_CHARS} characters at most")
    if read.state and read.state not in STATES:
        raise BadRequest(f"state is one of {', '.join(STATES)}")
    return read


def _texts(row: Lease) -> Iterator[str]:
    yield from (row.job_id, row.label or "", row.last_class or "", row.last_error or "")
    yield from (f"{name}={value}" for name, value in row.tags.items())
