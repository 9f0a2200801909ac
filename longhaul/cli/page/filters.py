"""Which of the jobs a person wants to see."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from werkzeug.exceptions import BadRequest

from longhaul.operations.look import STATES, Wanted

_FIELDS: Final = ("stage", "state", "text")
_MAX_CHARS: Final = 256


@dataclass(frozen=True)
class Filter:
    """Empty fields let all through; `text` as of `Wanted`."""

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

    @property
    def wanted(self) -> Wanted:
        """The jobs that it lets through."""
        states = (self.state,) if self.state else STATES
        return Wanted(states=states, stage=self.stage, text=self.text)


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
