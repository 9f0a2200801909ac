"""Where data comes from: from an output or a table to what its attempts had read, and so on. Pure.

What a place says is looked up by the caller. The walk ends at what Longhaul did not write.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from longhaul.domain.provenance import InputRead, Origin, Writer

MAX_PLACES: Final = 200
"""Places that a walk looks up: each is a call or two, and a join may have thousands of inputs."""

_MAX_DEPTH: Final = 50


@dataclass(frozen=True)
class Wanted:
    """Data, in a version of it.

    `place` is an output's prefix, a table, or whatever else was read. `read`: as which input, by
    which attempt; None of what was asked for. `writer`: its latest writer then.
    """

    place: str
    read: InputRead | None = None
    by: Origin | None = None
    writer: Writer | None = None

    @property
    def version(self) -> str:
        """The version that was read; empty: the one of now."""
        return self.read.version if self.read else ""


@dataclass(frozen=True)
class Known:
    """What a place says: the attempts that wrote it, latest last; and what is not known, in words.

    `version` is that of a table which is looked at as it is now.
    """

    origins: tuple[Origin, ...] = ()
    note: str = ""
    version: str = ""


@dataclass(frozen=True)
class Step:
    """One place of the walk, so many steps from its begin; then each attempt that wrote to it.

    What `writer` had read comes next.
    """

    depth: int
    wanted: Wanted
    known: Known
    writer: Origin | None = None

    @property
    def version(self) -> str:
        return self.wanted.version or self.known.version


Look = Callable[[Wanted], Known]

_ELSEWHERE: Final = Known(note="from elsewhere: no job of Longhaul is known to have written it")
_AGAIN: Final = Known(note="shown above")
_TOO_MANY: Final = Known(note=f"not looked up: there are more than {MAX_PLACES} places")


def upstream(first: Wanted, look: Look) -> Iterator[Step]:
    """What the data comes from, each place before what that was made of."""
    looked = set[tuple[str, str]]()

    def visit(wanted: Wanted, depth: int) -> Iterator[Step]:
        place = (wanted.place, wanted.version)
        if wanted.read is not None and wanted.writer is None:
            known = _ELSEWHERE
        elif place in looked:
            known = _AGAIN
        elif len(looked) >= MAX_PLACES or depth > _MAX_DEPTH:
            known = _TOO_MANY
        else:
            looked.add(place)
            known = look(wanted)
        yield Step(depth, wanted, known)
        for origin in known.origins:
            yield Step(depth, wanted, known, origin)
            for read in origin.inputs:
                # An input may be the outputs of several jobs.
                for writer in read.writers or (None,):
                    place_read = writer.place if writer else read.path
                    yield from visit(Wanted(place_read, read, origin, writer), depth + 1)

    return visit(first, 0)
