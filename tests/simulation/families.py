"""What follows from what in a pipeline: as the plan wants it, and as the requests say that came into the queues."""

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.sightings import Sent
from tests.simulation.stages import CLEAN, MAIN, SUM

if TYPE_CHECKING:
    from tests.simulation.seen import Seen

Place = int | str
"""Of a job among those that follow from one: its number in the fan-out, or `sum` for the one that joins them."""


class Families:
    """`followed`: what was sent, by parent, place and key; the first message of each. What somebody submits by hand names no parent, and takes a place that is there."""

    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.followed: dict[str, dict[Place, dict[str, Sent]]] = defaultdict(lambda: defaultdict(dict))
        self._place: dict[str, tuple[str, Place]] = {}  # parent and place, by key

    def note(self, sent: Sent) -> None:
        if sent.parent is not None:
            place = self.place_of(sent)
            self.followed[sent.parent][place].setdefault(sent.key, sent)
            self._place.setdefault(sent.key, (sent.parent, place))

    def place_of(self, sent: Sent) -> Place:
        groups = sent.request["lineage"]["groups"]
        return SUM if sent.stage == SUM else groups[-1]["n"] if groups else 0

    def keys_at(self, parent: str, place: Place) -> list[str]:
        return list(self.followed[parent][place]) if parent in self.followed else []

    def group_of(self, key: str) -> tuple[str, list[str | None]] | None:
        """Of a job of `clean`, or of one that emitted: under whose name its fan-out is joined, and the keys of all members, None for those that were not sent.

        What follows without being emitted is a group of its own. None: it leads to no join of its own.
        """
        parent = key
        if key.startswith(f"{CLEAN}#"):
            if key not in self._place:
                return None
            parent, _ = self._place[key]
        size = self._seen.job_of(parent).fan_out
        if size is None:
            return (key, [key]) if parent != key else None
        return parent, [next(iter(self.keys_at(parent, n)), None) for n in range(size)]

    def unsent(self, key: str, *, once_finished: bool = False) -> str | None:
        """What of that which follows from a job that succeeded was not sent.

        A member leads to the join when it is the last one: `once_finished`, when the others owe nothing more either. Before, one of them may be about to send it.
        """
        if not self._seen.world.settings.stage(key.partition("#")[0]).next:
            return None
        if key.startswith(f"{MAIN}#"):
            size = self._seen.job_of(key).fan_out
            missing = [n for n in range(1 if size is None else size) if not self.keys_at(key, n)]
            if missing or size != 0:
                return f"what follows from {key} at {missing} was not sent" if missing else None
        group = self.group_of(key)
        if group is None:
            return f"{key} is in no group" if key not in self._place else None
        parent, members = group
        others = [each for each in members if each != key]
        if any(each is None or self._seen.success_of(each) is None for each in others):
            return None
        if once_finished and any(each in self._seen.open_rows for each in others):
            return None
        return None if self.keys_at(parent, SUM) else f"the join of {parent} was not sent"
