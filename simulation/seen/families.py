"""What follows from each job of a pipeline: as planned, and as sent to the queues."""

from collections import defaultdict
from typing import TYPE_CHECKING

from longhaul.domain.lease import AttemptId, emitted_ref
from simulation.seen.sightings import Sent
from simulation.worlds.stages import CLEAN, MAIN, SUM

if TYPE_CHECKING:
    from simulation.seen.record import Seen

Place = int | str
"""A follow-on's place behind its parent: its number in the fan-out, or `sum` for the join."""


class Families:
    """The follow-ons that were sent.

    A request by hand names no parent, and takes the place of the job that it corrects.

    Attributes:
        followed: The first message of each, by parent, place and key.
    """

    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.followed: dict[str, dict[Place, dict[str, Sent]]] = defaultdict(
            lambda: defaultdict(dict)
        )
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
        """The group in which a job is joined: its parent, and the keys of its members.

        The key of a member that was not sent is None. A follow-on that was not emitted is a group
        of its own. None for a job that leads to no join.
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
        """The follow-ons of a successful job that were not sent, in words; None when all were.

        The last member sends the join. With `once_finished` the join may be missing while another
        member still owes something, since that one may be about to send it.
        """
        settings = self._seen.world.settings
        # What it emitted is sent wherever its stage leads by now.
        is_sent = self._has_emitted(key) and not settings.stage_or_removed(CLEAN).is_removed
        if not is_sent and not settings.stage_or_removed(key.partition("#")[0]).next:
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
        if self.keys_at(parent, SUM) or self.is_incomplete(parent):
            return None
        return f"the join of {parent} was not sent"

    def _has_emitted(self, key: str) -> bool:
        success, world = self._seen.success_of(key), self._seen.world
        if success is None:
            return False
        ref = emitted_ref(AttemptId(success.key, success.run, success.attempt))
        return ref in world.aws.s3.buckets[world.settings.paths.data_bucket].objects

    def is_incomplete(self, parent: str) -> bool:
        """Whether outputs expired before the join could start, which was dead-lettered."""
        return parent in self._seen.expired and any(
            letter.reason.get("class") == "incomplete_join" for letter in self._seen.dead_letters
        )
