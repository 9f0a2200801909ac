"""What follows from each job of a pipeline: as planned, and as sent to the queues."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from longhaul.core.lease import AttemptId, emitted_ref
from simulation.seen.sightings import Sent
from simulation.worlds.stages import JOINS, SHAPES

if TYPE_CHECKING:
    from simulation.seen.record import Seen

Place = int | str
"""A follow-on's place behind its parent: its number in the fan-out, or the stage that joins."""


class Families:
    """The follow-ons that were sent.

    A request by hand names no parent, and takes the place of the job that it corrects.

    Attributes:
        followed: The first message of each in the latest run of its parent, by parent, place and
            key.
    """

    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.followed: dict[str, dict[Place, dict[str, Sent]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._place: dict[str, tuple[str, Place]] = {}  # parent and place, by key
        self._shape = SHAPES[seen.world.plan.shape]

    def note(self, sent: Sent) -> None:
        if sent.parent is not None:
            place = self.place_of(sent)
            before = self.followed[sent.parent][place].setdefault(sent.key, sent)
            if before.led_by < sent.led_by:
                self.followed[sent.parent][place][sent.key] = sent
            self._place.setdefault(sent.key, (sent.parent, place))

    def place_of(self, sent: Sent) -> Place:
        if sent.stage in JOINS:
            return sent.stage
        groups = sent.request["lineage"]["groups"]
        return int(groups[-1]["n"]) if groups else 0

    def keys_at(self, parent: str, place: Place) -> list[str]:
        return list(self.followed[parent][place]) if parent in self.followed else []

    def latest(self) -> Iterator[Sent]:
        """Of each that follows the first message in the latest run of its parent."""
        for places in self.followed.values():
            for sent in places.values():
                yield from sent.values()

    def places(self, key: str) -> Sequence[int]:
        """The places of what follows in the next stage, as planned; none where that joins."""
        if not self._shape.splits(_stage(key)):
            return ()
        fan_out = self.fan_out(key)
        return range(1 if fan_out is None else fan_out)

    def fan_out(self, key: str) -> int | None:
        """How many jobs it emits; None if it emits none, and its output is what follows.

        Where its stage led nowhere while it ran, it could emit none, and may lead to one since.
        """
        has_none = self._seen.retired and self._seen.success_of(key) is not None
        return None if has_none and not self._has_emitted(key) else self._seen.job_of(key).fan_out

    def groups_of(self, key: str) -> list[dict[str, object]]:
        """The groups in which the follow-on was sent; none of a job that a producer sent."""
        if key not in self._place:
            return []
        parent, place = self._place[key]
        first = self.followed[parent][place][key]
        # What an earlier run of its parent has sent may still run.
        claimed = self._seen.sent.get(self._seen.rows.get(key, {}).get("message_id", {}).get("S"))
        runs = claimed if claimed is not None and claimed.parent == parent else first
        found: list[dict[str, object]] = runs.request["lineage"]["groups"]
        return found

    def collected(self, key: str, join: str, led_by: int = 0) -> Iterator[str | None]:
        """All jobs behind one that lead to its join, the first place first.

        None for one that has not succeeded, or was not sent, in the latest run of what led to it:
        what follows from it is not known.
        """
        success = self._seen.success_of(key)
        is_old = success and self._seen.led_by.get(success[:2], 0) < led_by
        if success is None or is_old or self.is_cut_off(key):
            yield None
            return
        stage = _stage(key)
        if stage == self._shape.before(join):
            yield key
            return
        # A job that opens another join on the way is followed by that alone.
        inner = [each for each in self._shape.openers if self._is_between(each, stage, join)]
        for place in inner or self.places(key):
            sent = self.keys_at(key, place)
            if not sent or (place in inner and self._runs_again(key, place, sent[0])):
                yield None
            else:
                yield from self.collected(sent[0], join, 0 if place in inner else success.run)

    def _runs_again(self, opener: str, join: str, key: str) -> bool:
        """Whether a job that joins has run, and is to: it was sent since, or will be."""
        success = self._seen.success_of(key)
        if success is None:
            return False
        is_due = None in self.collected(opener, join) or not self._is_sent_since(opener, join)
        return is_due or self._seen.committed[success] < self.followed[opener][join][key].at

    def _is_sent_since(self, opener: str, join: str) -> bool:
        """Whether the join was sent since the latest success of all that it waits for."""
        sent = self.followed.get(opener, {}).get(join, {})
        keys = (opener, *filter(None, self.collected(opener, join)))
        latest = (self._seen.success_of(key) for key in keys)
        since = max(self._seen.committed[each] for each in latest if each is not None)
        return any(each.at >= since for each in sent.values())

    def _is_between(self, inner: str, stage: str, join: str) -> bool:
        line = self._shape.line
        return self._shape.openers[inner] == stage and line.index(inner) < line.index(join)

    def opener_of(self, key: str, join: str) -> str | None:
        """The job whose join waits for this one; None when it does not lead there."""
        line = self._shape.line
        opener = self._shape.openers[join]
        while _stage(key) != opener:
            if key not in self._place or line.index(_stage(key)) >= line.index(join):
                return None
            key, _ = self._place[key]
        return key

    def opens(self, key: str, join: str) -> bool:
        """Whether the join belongs to the job: a stage may have been retired as it was claimed."""
        if not self._seen.retired:
            return True
        return {"S": join} in self._seen.rows[key].get("opens", {"L": []})["L"]

    def unsent(self, key: str, *, once_finished: bool = False) -> str | None:
        """The follow-ons of a successful job that were not sent, in words; None when all were.

        The last member sends the join. With `once_finished` the join may be missing while another
        member still owes something, since that one may be about to send it.
        """
        if self.is_cut_off(key):
            return None if self._was_cancelled(key) else f"{key} was cut off and never cancelled"
        settings, stage = self._seen.world.settings, _stage(key)
        after = self._shape.after(stage)
        # Wherever its stage leads by now.
        is_sent = (
            after is not None
            and (self._has_emitted(key) or self._led_to(key, after))
            and not settings.stage_or_removed(after).is_removed
        )
        # Brought back, a stage gets nothing of those that succeeded while none led to it.
        is_asked_for = settings.stage_or_removed(stage).next and not self._seen.retired
        if not is_sent and not is_asked_for:
            return None
        success = self._seen.success_of(key)
        missing = [
            place
            for place in self.places(key)
            if not any(
                success is None or sent.led_by >= success.run
                for sent in self.followed.get(key, {}).get(place, {}).values()
            )
        ]
        if missing:
            return f"what follows from {key} at {missing} was not sent"
        for join in self._shape.openers:
            opener = self.opener_of(key, join)
            if opener is None or not self.opens(opener, join):
                continue
            if None in self.collected(opener, join):
                continue
            if self._is_sent_since(opener, join) or self.is_incomplete(opener):
                continue
            if once_finished and self._is_about_to_send(opener, key):
                continue
            return f"the join {join} of {opener} was not sent"
        return None

    def is_cut_off(self, key: str) -> bool:
        """Whether nothing follows from its latest success, because of a cancel."""
        success = self._seen.success_of(key)
        return success is not None and success[:2] in self._seen.cut_off

    def _was_cancelled(self, key: str) -> bool:
        row = self._seen.rows[key]
        root = json.loads(row["lineage"]["S"])["root"] if "lineage" in row else key
        return "cancelled_at" in row or "tree_cancelled_at" in self._seen.rows.get(root, {})

    def _is_about_to_send(self, opener: str, key: str) -> bool:
        """Whether another job of the family owes something."""
        return any(
            each != key and (each == opener or self._descends(each, opener))
            for each in self._seen.open_rows
        )

    def _descends(self, key: str, opener: str) -> bool:
        while key in self._place:
            key, _ = self._place[key]
            if key == opener:
                return True
        return False

    def _led_to(self, key: str, stage: str) -> bool:
        """Whether the settings led from a job to this stage when it succeeded, as far as known."""
        row = self._seen.rows.get(key, {})  # none when its time to live has passed
        return {"S": stage} in row.get("leads_to", {"L": []})["L"]

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


def _stage(key: str) -> str:
    return key.partition("#")[0]
