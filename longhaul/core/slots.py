"""Give the free slots of a stage to the messages that wait, and put the others back.

Nothing runs while messages wait: each comes again after a part of its likely wait.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TypeVar

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.batch import Batch, Guard, Known, Messages, Starter
from longhaul.core.claim import Claim, claim_without_message, claimed_at
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError
from longhaul.core.lease import Lease, State
from longhaul.core.logs import about
from longhaul.core.message import JobMessage
from longhaul.core.pace import Pace
from longhaul.core.ports import Context
from longhaul.core.settings import Stage

logger = Logger(child=True)

T = TypeVar("T")

_LOOKED_AT = 100
"""Released jobs of a stage that are looked at: one read of the index, one of the rows."""


@dataclass(frozen=True, kw_only=True)
class Claimer:
    context: Context
    messages: Messages
    starter: Starter
    guard: Guard

    def first(self, batch: Batch) -> list[tuple[JobMessage, Claim]]:
        """The claims that may take the free slots, retries first, taken out of those that wait."""
        waiting = sorted(batch.waiting, key=lambda each: not _is_retry(each[1].replaces))
        chosen = waiting[: batch.room.free]
        for each in chosen:  # other threads may append meanwhile
            batch.waiting.remove(each)
        return chosen

    def claim(self, claims: Sequence[tuple[JobMessage, Claim]], batch: Batch) -> list[Known]:
        """Claim and start, in parallel; returns the messages whose rows have changed.

        A message whose slot another dispatcher took waits again.
        """
        pace = batch.room.after(len(claims), self.context.clock.now())
        tasks = [partial(self._claim, message, claim, batch, pace) for message, claim in claims]
        changed = self.context.background.run_all(tasks, at_once=len(tasks))
        return [known for known in changed if known is not None]

    def _claim(self, message: JobMessage, claim: Claim, batch: Batch, pace: Pace) -> Known | None:
        now = self.context.clock.now()
        if batch.is_over(now):
            return None
        with self.guard.message(batch, message):
            timed = claimed_at(claim, message, batch.stage, self.context.timing, now)
            try:
                with about(timed.lease.id, timed.lease.label):
                    self.starter.start(message, timed, batch, pace)
            except NoFreeSlotError:
                batch.waiting.append((message, claim))
            except LeaseChangedError as error:
                return message, error.current
        return None

    def claim_retries(self, batch: Batch) -> None:
        """Give free slots to jobs that ran before, before any new job that waits here."""
        # With more slots than messages there is no backlog in which a retry could be far behind.
        if not 0 < batch.room.free <= len(batch.waiting):
            return
        here = {message.key for message, _ in batch.waiting}
        claims = self._due(batch.stage, batch.room.free, but=here)
        if not claims:
            return
        pace = batch.room.after(len(claims), self.context.clock.now())

        def start(claim: Claim) -> None:
            with about(claim.lease.id, claim.lease.label):
                try:
                    self.starter.claim_and_start(claim, batch, pace)
                except (NoFreeSlotError, LeaseChangedError):
                    logger.info("its message, or another dispatcher, was first")
                except Exception:
                    # Any error: the sweeper starts what was claimed, and the others go on.
                    logger.exception("could not start this retry")

        self.context.background.run_all(
            [partial(start, claim) for claim in claims], at_once=len(claims)
        )
        batch.room = self.context.slots.room(batch.stage, self.context.clock.now())

    def _due(self, stage: Stage, most: int, *, but: Collection[str]) -> list[Claim]:
        """The claims of at most `most` jobs, the longest due first.

        `but`: keys of jobs whose messages are in hand.
        """
        keys = islice(self.context.leases.open_keys(stage.name, "RELEASED"), _LOOKED_AT)
        rows = self.context.leases.load_many([key for key in keys if key not in but]).values()
        now = self.context.clock.now()
        found = [
            claim for row in rows if (claim := claim_without_message(row, self.context.timing, now))
        ]
        found.sort(key=lambda claim: claim.lease.retry_at or now)
        return self._uncancelled(found[:most])

    def _uncancelled(self, claims: Sequence[Claim]) -> list[Claim]:
        """Without those whose tree was cancelled: their messages end them.

        And without those of whose tree that is not known, as its root cannot be read.
        """
        roots = self.context.leases.load_many({each.lease.root for each in claims})
        known = (claim for claim in claims if claim.lease.root not in roots.unreadable)
        return [
            claim
            for claim in known
            if not claim.lease.is_cancelled_with_tree(roots.get(claim.lease.root))
        ]

    def put_back(self, batch: Batch) -> None:
        """Hide the messages without a slot until they are to be looked at again."""
        without_slot = _take_first(batch.waiting, len(batch.waiting))
        if not without_slot:
            return
        waiting = [message for message, _ in without_slot]
        self.messages.defer(batch, waiting)
        batch.deferred_s += [
            self._waited_s(message, claim.replaces) for message, claim in without_slot
        ]
        batch.rarely_seen += [
            message.message_id
            for message in waiting
            if message.comes_rarely(self.context.timing, self.context.clock.now())
        ]
        tasks = [
            partial(self._note_seen, message, claim.replaces, batch)
            for message, claim in without_slot
        ]
        self.context.background.run_all(tasks, at_once=len(tasks))

    def _note_seen(self, message: JobMessage, row: Lease | None, batch: Batch) -> None:
        """Note that the message of a released job is there, or the sweeper would send a copy.

        Not at every receive, because the message may wait for a slot for days.
        """
        now = self.context.clock.now()
        if row is None or row.state is not State.RELEASED or batch.is_over(now):
            return
        if row.unseen_for(now) >= timedelta(seconds=self.context.timing.missing_after_s / 2):
            # Suppressed: it was claimed or cancelled a moment ago.
            with self.guard.message(batch, message), suppress(LeaseChangedError):
                self.context.leases.apply(transitions.note_seen(row, now))

    def _waited_s(self, message: JobMessage, row: Lease | None) -> float:
        """Seconds since the job was due, or since its last attempt ended."""
        ended_at = row.settled_at if row and row.state is State.RELEASED else None
        return (self.context.clock.now() - (ended_at or message.due_at)).total_seconds()


def _is_retry(row: Lease | None) -> bool:
    return row is not None and row.state is State.RELEASED and not row.is_planned


def _take_first(waiting: list[T], count: int) -> list[T]:
    """The first of the list, taken out of it. Other threads may append meanwhile."""
    first = waiting[:count]
    del waiting[: len(first)]
    return first
