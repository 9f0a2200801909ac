"""Handle a batch of deliveries: read all and their rows, then decide and act in parallel.

Every record is kept (reported as a batch item failure) until its message is meant to be deleted:
the mapping must never delete a message whose job runs. So any failure here, a timeout included,
costs at most another receive.

What claims and what is slow is put aside while the batch acts, and done last: claims take the free
slots, and beside them jobs are finished, one after the other. Nothing runs while messages wait:
each comes again after a part of its likely wait.

Dispatcher   what each message of a batch means, and that it is done
Claimer      attempts start in the free slots of the stage
Messages     a message is held, put back, renewed or dead-lettered; and what errors do
Batch        what is known of the deliveries so far
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from math import floor

from aws_lambda_powertools import Logger

from longhaul.core import beat, transitions
from longhaul.core.claim import (
    Cancelled,
    CancelWaiting,
    Claim,
    Conflict,
    Decision,
    Duplicate,
    Finish,
    Postpone,
    Probe,
    adopted,
    claimed,
    decide_claim,
    first_receive,
    may_claim_without_message,
    next_attempt,
    run_lineage,
)
from longhaul.core.dead_letter import Reason, refusal
from longhaul.core.errors import (
    InvalidRequestError,
    LeaseChangedError,
    NoFreeSlotError,
    SupersededError,
    UnprovenError,
)
from longhaul.core.finish import Finisher
from longhaul.core.giving_up import GivingUp, refuse
from longhaul.core.lease import (
    AttemptId,
    Lease,
    Receive,
    State,
    job_key,
    joined_ref,
    with_emission,
    with_handle,
    with_next,
)
from longhaul.core.logs import about
from longhaul.core.message import (
    Delivery,
    JobMessage,
    Message,
    id_of,
    read,
    receive_of,
    renewal,
    require_room,
)
from longhaul.core.metrics import Metric, StageMetric
from longhaul.core.pace import MAX_HIDDEN, Pace, Room, deferrals_s
from longhaul.core.policy import check_policy
from longhaul.core.ports import Context
from longhaul.core.request import JobRequest
from longhaul.core.seams import Announcer, Descent
from longhaul.core.settings import Stage
from longhaul.core.settle import Settler
from longhaul.core.settlement import INTERNAL_ERROR, end_cancelled, explained
from longhaul.core.verdict import Evidence

logger = Logger(child=True)

CONFLICTING = "conflicting_job_id"
INVALID = "invalid_request"

_TRIES = 5

_LOOKED_AT = 100
"""Released jobs of a stage that are looked at: one read of the index, one of the rows."""

_UNREADABLE_S = 300
"""Wait for the version that can read the row."""

_OWED_S = 60
"""Wait for what the previous run owes: the sweeper does it too, every few minutes."""

_STOPPING_S = 15
"""Wait for the task of the previous run to end.

Most end within seconds, one that ignores SIGTERM after `stop_timeout_s`.
"""

Known = tuple[JobMessage, Lease | None]
"""A message and its row, as it was read last."""


@dataclass(frozen=True)
class Closed:
    """The execution of `attempt` has closed, as `status`, without a settle."""

    attempt: AttemptId
    status: str


@dataclass
class Batch:
    """Deliveries of one stage.

    `kept`: ids of the messages that stay in the queue, at first all. `waiting`: messages with the
    claims for which they have no slot yet. `slow`: messages with what may take long, and must delay
    no claim. `refused`: refused messages by id, with the dead row that is to be finished; or, where
    another row stays as it is, with the reason of the dead letter, which is to be told.
    `room`: the stage's slots, as they were read last.

    `until`: when the batch is over, whatever is left.

    For the metrics, from threads in parallel: ids of the `started` and the `dead_lettered`, the
    seconds that each of the deferred had waited, and the ids of those that come too rarely.
    """

    stage: Stage
    kept: set[str]
    until: datetime | None = None
    waiting: list[tuple[JobMessage, Claim]] = field(default_factory=list)
    slow: list[tuple[JobMessage, Finish | Closed]] = field(default_factory=list)
    room: Room = field(default_factory=lambda: Room(slots=1, free=0, running=0))
    started: list[str] = field(default_factory=list)
    dead_lettered: list[str] = field(default_factory=list)
    deferred_s: list[float] = field(default_factory=list)
    rarely_seen: list[str] = field(default_factory=list)
    refused: list[tuple[str, Lease | Reason]] = field(default_factory=list)

    def is_over(self, now: datetime) -> bool:
        return self.until is not None and now >= self.until

    def refuses(self, message_id: str, reason: Reason, dead: Lease | None = None) -> None:
        """Note that a message is refused. `dead`: the row of its job says what is left to do.

        Without it the message has its dead letter. That is told later: a target that hangs holds up
        nothing.
        """
        self.dead_lettered.append(message_id)
        self.refused.append((message_id, dead or reason))
        logger.warning(
            "dead-lettered",
            extra={"message_id": message_id, "class": reason.kind, "reason": reason.reason},
        )

    def measured(self) -> dict[Metric, float]:
        values: dict[Metric, float | None] = {
            StageMetric.STARTED: len(self.started) or None,
            StageMetric.DEAD_LETTERED: len(self.dead_lettered) or None,
            StageMetric.OLDEST_WAITING: max(self.deferred_s, default=None),
            StageMetric.NEAR_RETENTION: len(self.rarely_seen) or None,
        }
        return {metric: value for metric, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Puts messages back, renews them, and dead-letters them.

    The mapping deletes every message that is not kept.
    """

    context: Context
    announcer: Announcer
    finisher: Finisher
    giving_up: GivingUp

    def hold(self, batch: Batch, message: JobMessage, seconds: int) -> None:
        """Make the message visible after these seconds."""
        self.context.queue.set_visibility(batch.stage.queue_url, message.receipt_handle, seconds)

    def postpone(self, batch: Batch, message: JobMessage, seconds: int) -> None:
        """As `hold`, for a message that may come so often that it wears out.

        Where that is longer than SQS hides a message, it comes in between, and is put back again.
        """
        if not self.renew_if_worn_out(batch, message):
            held_s = (self.context.clock.now() - message.received_at).total_seconds()
            self.hold(batch, message, max(0, min(seconds, floor(beat.MAX_VISIBILITY_S - held_s))))

    def renew_if_worn_out(self, batch: Batch, message: JobMessage) -> bool:
        """Send a copy of a message that SQS will soon drop; then the message may go.

        The copy comes at once, and what was to be done with the message is done with it. A crash
        after the send leaves both: they are of one chain, in which a later message replaces an
        earlier one. Returns whether there is a copy.
        """
        if not message.wears_out(self.context.timing, self.context.clock.now()):
            return False
        self._keep_proof(message)
        copy = renewal(
            message.content, message.chain, message.key, message.first_sent_at, message.again
        )
        self.context.queue.send(batch.stage.queue_url, copy)
        batch.kept.discard(message.message_id)
        logger.info(
            "message renewed",
            extra={"lease": message.key, "receive_count": message.receive_count},
        )
        return True

    def _keep_proof(self, message: JobMessage) -> None:
        """Let what proves a follow-on's lineage live on, for as long as its message waits.

        The row of its parent has months to live, and so have the inputs of a join. A forged lineage
        may keep somebody's row, and proves nothing by that.
        """
        lineage = message.request.lineage
        if lineage is None:
            return
        openers = (group.of for group in lineage.groups if group.opens)  # they prove joins to come
        for key in dict.fromkeys((lineage.parent, *openers)):
            self.context.leases.keep(key, self.context.clock.now())
        ref = joined_ref(message.key, lineage.run)
        if (
            lineage.inputs_ref == ref
            and (inputs := self.context.requests.get_inputs(ref)) is not None
        ):
            self.context.requests.put_inputs(ref, inputs)

    def refuse(
        self,
        batch: Batch,
        receive: Receive,
        content: Message,
        reason: Reason,
        *,
        request: JobRequest | None = None,
        row: Lease | None = None,
    ) -> None:
        """End the job of a message that starts no run. A row of another end stays as it is."""
        dead = refuse(self.context, batch.stage, content, reason, receive, request=request, row=row)
        if dead is None:
            self.dead_letter(batch, receive.message_id, content, reason)
            return
        batch.refuses(receive.message_id, reason, replace(dead, receive=receive))

    def dead_letter(self, batch: Batch, message_id: str, content: Message, reason: Reason) -> None:
        """Dead-letter a message that says nothing of the job whose id it has.

        Send first, delete afterwards: a crash in between sends it twice, and loses nothing.
        """
        self.giving_up.send(batch.stage.dead_letter_queue_url, lambda: content, reason)
        batch.kept.discard(message_id)
        batch.refuses(message_id, reason)

    def endings(self, batch: Batch) -> list[Callable[[], None]]:
        """Tasks that finish what was refused, and tell of it; taken out of the batch."""
        refused, batch.refused = batch.refused, []
        return [partial(self._end, batch, *each) for each in refused]

    def _end(self, batch: Batch, message_id: str, what: Lease | Reason) -> None:
        if isinstance(what, Reason):
            self.announcer.refused(batch.stage, what, message_id, batch.until)
            return
        if batch.is_over(self.context.clock.now()):
            return  # it comes again, and its letter is not sent beside the next batch
        with _unless_it_fails(message_id):
            if self.finisher.finish(what, batch.until).is_finished:
                batch.kept.discard(message_id)

    def defer(self, batch: Batch, messages: Sequence[JobMessage]) -> None:
        """Hide the messages until they are to be looked at again."""
        depth = self.context.queue.depth(batch.stage.queue_url)
        waiting = max(len(messages), depth.visible + depth.hidden - batch.room.running)
        likely_wait_s = waiting * batch.room.gap_s(self.context.clock.now())
        if depth.hidden >= MAX_HIDDEN:
            likely_wait_s = 0
        seconds = deferrals_s(len(messages), likely_wait_s, self.context.timing, self.context.rng)
        handles = [message.receipt_handle for message in messages]
        self.context.queue.set_visibility_many(
            batch.stage.queue_url, dict(zip(handles, seconds, strict=True))
        )

    @contextmanager
    def guard(self, batch: Batch, message: JobMessage) -> Iterator[None]:
        """Any error in the block: the message stays in the queue, and the others go on.

        A message that fails again and again becomes a dead letter.
        """
        failed = partial(self._failed, message, batch)
        named = about(message.key, message.request.label)
        with named, _unless_it_fails(message.message_id, failed):
            yield

    @contextmanager
    def guard_reading(self, batch: Batch, delivery: Delivery) -> Iterator[None]:
        """The same before the job of a message is known."""
        with _unless_it_fails(delivery.message_id, partial(self._failed_to_read, delivery, batch)):
            yield

    def _failed_to_read(self, delivery: Delivery, batch: Batch, error: Exception) -> None:
        """Count an error before the job of a message was known."""
        place = f"{batch.stage.name}#{delivery.message_id}"
        if self.giving_up.is_due(place, delivery.message_id, error):
            text = explained(error, "this message could not be read, or not be refused")
            reason = refusal(INTERNAL_ERROR, text, delivery.sent_at)
            self.dead_letter(batch, delivery.message_id, delivery.content, reason)

    def _failed(self, message: JobMessage, batch: Batch, error: Exception) -> None:
        """Count an error; in the end give up the waiting job, or a message that has no job.

        A running job and an ended one are left to the sweeper and to `finish`, which count too.
        """
        if not self.giving_up.is_due(message.key, message.message_id, error):
            return
        row = self.context.leases.load(message.key)
        if row is None or not row.receive.is_of(message.chain):
            text = explained(error, "no run could be started")
            reason = refusal(INTERNAL_ERROR, text, message.sent_at, message.key, message.request)
            try:
                self.refuse(
                    batch,
                    first_receive(message),
                    message.content,
                    reason,
                    request=message.request,
                    row=row,
                )
            except Exception:
                logger.exception("a dead letter without a row", extra={"lease": message.key})
                self.dead_letter(batch, message.message_id, message.content, reason)
        elif row.state is State.RELEASED:
            ended = with_handle(self.giving_up.end(row, error), message.receipt_handle)
            if self.finisher.finish(ended, batch.until).is_finished:
                batch.kept.discard(message.message_id)


@dataclass(frozen=True, kw_only=True)
class Claimer:
    context: Context
    messages: Messages
    descent: Descent

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
        with self.messages.guard(batch, message):
            # Now: the wait for a slot does not count as the attempt's age.
            lease = claimed(claim, message, batch.stage, self.context.timing, now)
            try:
                with about(lease.id, lease.label):
                    self._claim_for(message, claim, lease, batch, pace)
            except NoFreeSlotError:
                batch.waiting.append((message, claim))
            except LeaseChangedError as error:
                return message, error.current
        return None

    def _claim_for(
        self, message: JobMessage, claim: Claim, lease: Lease, batch: Batch, pace: Pace
    ) -> None:
        if self._is_task_left(claim.replaces, message):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        if claim.starts_run:
            self.context.requests.put(lease.request_ref, message.content)
            lease = with_next(self.descent.with_joins(lease), self.context.settings)
        closed_as = self._start(claim.replaces, lease, batch, pace)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
        else:
            self._hold_until_first_beat(message, lease, batch)

    def _start(self, before: Lease | None, lease: Lease, batch: Batch, pace: Pace) -> str | None:
        """Write the claim, and start its execution.

        Returns the status in which that has closed already; None while it runs.
        """
        lease = with_emission(lease, batch.stage)
        self.context.leases.apply(transitions.claim(before, lease, batch.stage, pace))
        batch.started.append(lease.receive.message_id)
        logger.info(
            "job claimed",
            extra={
                "lease": lease.key,
                "run": lease.run,
                "receive_count": lease.receive.receive_count,
            },
        )
        return self.context.executions.ensure_started(
            lease.id.execution_name, lease.execution_input
        )

    def probe(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """The row says RUNNING: start its execution again, with the row's name and input.

        It runs, or starts now because a dispatcher died between claim and start: adopt this
        receive. It has closed without a settle: settle it.
        """
        closed_as = self.context.executions.ensure_started(
            lease.id.execution_name, lease.execution_input
        )
        row = self._adopt(lease, message)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
            return
        if row is None:
            return
        age_s = (self.context.clock.now() - row.attempt.claimed_at).total_seconds()
        wait_s = beat.interval_s(age_s, self.context.timing)
        self.messages.hold(batch, message, beat.visibility_s(wait_s, 0, self.context.timing))
        logger.info(
            "running job adopted",
            extra={"lease": lease.key, "receive_count": message.receive_count},
        )

    def _adopt(self, lease: Lease, message: JobMessage) -> Lease | None:
        """The row with this receive; None when a later receive of the message was adopted first.

        Then the row has the later receive's handle, and ours no longer holds the message.
        """
        try:
            return self.context.leases.report(transitions.adopt(lease, message))
        except LeaseChangedError as error:
            if (
                error.current is None
                or not error.current.owns(lease.id)
                or not error.current.has_seen(message.message_id, message.receive_count)
            ):
                raise
            logger.info("a later receive was adopted first", extra={"lease": lease.key})
            return None

    def _hold_until_first_beat(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """Extend the message where the queue's visibility ends before the first beat."""
        wait_s = lease.input.first_wait_s
        held_s = (self.context.clock.now() - message.received_at).total_seconds()
        if beat.must_extend(wait_s, held_s):
            seconds = beat.visibility_s(wait_s, held_s, self.context.timing)
            self.messages.hold(batch, message, seconds)

    def _is_task_left(self, before: Lease | None, message: JobMessage) -> bool:
        """Whether the task of the attempt before still runs; it is stopped then.

        A released message becomes visible after that task is gone. The message of a job that is
        submitted again may come sooner.
        """
        if before is None or before.attempt.is_over:
            return False
        task_arn = before.attempt.task_arn
        if task_arn is None or before.receive.message_id == message.message_id:
            return False
        why = "Longhaul: the job was submitted again"
        stopped = self.context.tasks.stop(task_arn, before.id, why)
        if not stopped.is_gone:
            logger.info(
                "the task of the run before may still run: a new run waits for its end",
                extra={"lease": before.key, "task": task_arn, "gone_by": stopped.gone_by},
            )
        return not stopped.is_gone

    def claim_retries(self, batch: Batch) -> None:
        """Give free slots to jobs that ran before, before any new job that waits here."""
        # With more slots than messages there is no backlog in which a retry could be far behind.
        if not 0 < batch.room.free <= len(batch.waiting):
            return
        here = {message.key for message, _ in batch.waiting}
        due = self._due(batch.stage, batch.room.free, but=here)
        if not due:
            return
        now = self.context.clock.now()
        pace = batch.room.after(len(due), now)

        def start(before: Lease) -> None:
            lease = next_attempt(before, None, self.context.timing, now)
            with about(lease.id, lease.label):
                try:
                    self._start(before, lease, batch, pace)
                except (NoFreeSlotError, LeaseChangedError):
                    logger.info("its message, or another dispatcher, was first")
                except Exception:
                    # Any error: the sweeper starts what was claimed, and the others go on.
                    logger.exception("could not start this retry")

        self.context.background.run_all([partial(start, row) for row in due], at_once=len(due))
        batch.room = self.context.slots.room(batch.stage, self.context.clock.now())

    def _due(self, stage: Stage, most: int, *, but: Collection[str]) -> list[Lease]:
        """At most `most` released jobs that may be claimed from their rows, the longest due first.

        Without those whose tree was cancelled: their messages end them. And without those of whose
        tree that is not known, as its root cannot be read. `but`: keys of jobs whose messages are
        in hand.
        """
        keys = islice(self.context.leases.open_keys(stage.name, "RELEASED"), _LOOKED_AT)
        rows = self.context.leases.load_many([key for key in keys if key not in but]).values()
        now = self.context.clock.now()
        due = [row for row in rows if may_claim_without_message(row, now)]
        due.sort(key=lambda row: row.retry_at or now)
        roots = self.context.leases.load_many({row.root for row in due[:most]})
        return [
            row
            for row in due[:most]
            if row.root not in roots.unreadable
            and not row.is_cancelled_with_tree(roots.get(row.root))
        ]

    def put_back(self, batch: Batch) -> None:
        """Hide the messages without a slot until they are to be looked at again."""
        without_slot = batch.waiting[:]
        del batch.waiting[: len(without_slot)]  # other threads may append meanwhile
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
            with self.messages.guard(batch, message), suppress(LeaseChangedError):
                self.context.leases.apply(transitions.note_seen(row, now))

    def _waited_s(self, message: JobMessage, row: Lease | None) -> float:
        """Seconds since the job was sent, or since its last attempt ended."""
        ended_at = row.settled_at if row and row.state is State.RELEASED else None
        return (self.context.clock.now() - (ended_at or message.first_sent_at)).total_seconds()


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    context: Context
    messages: Messages
    claimer: Claimer
    settler: Settler
    finisher: Finisher
    descent: Descent

    def dispatch(
        self, stage: Stage, deliveries: Sequence[Delivery], until: datetime | None = None
    ) -> list[str]:
        """Handle the batch; returns the ids of the messages to keep.

        It returns `until` then, also while a call hangs: a function that Lambda ends says nothing,
        and all messages come again, those that were dead-lettered among them.
        """
        batch = Batch(stage, {delivery.message_id for delivery in deliveries}, until)
        try:
            self.context.background.run_all(
                [partial(self._dispatch, deliveries, batch)],
                at_once=1,
                within_s=self.context.left_s(until),
            )
        except Exception:
            # Any error of a call for all of them, as in an outage, or the end of the time. The
            # answer still says what may be deleted.
            logger.exception("the rest of this batch stays in the queue")
        if values := batch.measured():
            self.context.metrics.put(values, stage=stage.name)
        return [delivery.message_id for delivery in deliveries if delivery.message_id in batch.kept]

    def _dispatch(self, deliveries: Iterable[Delivery], batch: Batch) -> None:
        messages = self._read(deliveries, batch)
        try:
            if messages:
                self._handle(self._look_up(messages, batch), batch)
            self._claim_and_finish(batch)
        finally:
            # In an outage the claims end early, and what was refused before is finished still.
            endings = self.messages.endings(batch)
            self.context.background.run_all(endings, at_once=max(1, len(endings)))

    def _read(self, deliveries: Iterable[Delivery], batch: Batch) -> list[JobMessage]:
        """The deliveries that are requests. The job of a body that is none is dead."""
        messages: list[JobMessage] = []
        paths = self.context.settings.paths
        for delivery in deliveries:
            now = self.context.clock.now()
            if batch.is_over(now):
                break
            with self.messages.guard_reading(batch, delivery):
                try:
                    messages.append(read(delivery, batch.stage, now, paths))
                except InvalidRequestError as error:
                    key = job_key(batch.stage.name, id_of(delivery))
                    reason = refusal(INVALID, str(error), delivery.sent_at, key)
                    self.messages.refuse(batch, receive_of(delivery), delivery.content, reason)
        return messages

    def _look_up(self, messages: Sequence[JobMessage], batch: Batch) -> list[Known]:
        """The messages to handle, with their rows.

        Of several messages with one key the first goes on; the others come again after its claim. A
        row that cannot be read belongs to a version that is no longer deployed, or not yet. Its
        message waits for that version, and is renewed as often as that takes.
        """
        rows, batch.room = self.context.leases.survey(
            [each.key for each in messages], batch.stage, self.context.clock.now()
        )
        firsts = {each.key: each for each in reversed(messages)}.values()
        waits = [
            partial(self._wait_for_version, each, batch)
            for each in firsts
            if each.key in rows.unreadable
        ]
        self.context.background.run_all(waits, at_once=max(1, len(waits)))
        return [(each, rows.get(each.key)) for each in firsts if each.key not in rows.unreadable]

    def _wait_for_version(self, message: JobMessage, batch: Batch) -> None:
        with self.messages.guard(batch, message):
            self.messages.postpone(batch, message, _UNREADABLE_S)

    def _handle(self, messages: Sequence[Known], batch: Batch) -> None:
        """Decide on all and act on all, in parallel; again where a row has changed meanwhile."""
        for _ in range(_TRIES):
            tasks = [partial(self._act, message, row, batch) for message, row in messages]
            changed = self.context.background.run_all(tasks, at_once=max(1, len(tasks)))
            messages = [known for known in changed if known is not None]
            if not messages:
                return
        for message, _row in messages:
            logger.warning(
                "the lease keeps changing; the message stays in the queue",
                extra={"lease": message.key},
            )

    def _act(self, message: JobMessage, row: Lease | None, batch: Batch) -> Known | None:
        """Do what the message means for its job; returns it with the row to decide on again."""
        now = self.context.clock.now()
        if batch.is_over(now):
            return None
        with self.messages.guard(batch, message):
            try:
                decision = decide_claim(row, message, self.context.timing, now)
                again = self._do(message, decision, batch)
            except LeaseChangedError as error:
                return message, error.current
            return None if again is None else (message, again)
        return None

    def _do(self, message: JobMessage, decision: Decision, batch: Batch) -> Lease | None:
        """Do what the decision says, or put it aside.

        Returns a row that must be decided on again, None when nothing is left to do.
        """
        # The message of a running job comes back after half a day, which may be too late.
        if isinstance(decision, Claim | Probe) and self.messages.renew_if_worn_out(batch, message):
            return None
        match decision:
            case Claim():
                return self._begin(message, decision, batch)
            case Probe(lease=probed):
                with about(probed.id, probed.label):
                    self.claimer.probe(message, probed, batch)
            case Finish():
                batch.slow.append((message, decision))
            case CancelWaiting(lease=waiting, covers=covers):
                ended = self._end_waiting(waiting, message if covers else None)
                if not covers:
                    return ended
                batch.slow.append((message, Finish(ended, own=True)))
            case Cancelled():
                logger.info(
                    "cancelled before it was claimed: deleted",
                    extra={"lease": message.key, "message_id": message.message_id},
                )
                batch.kept.discard(message.message_id)
            case Postpone(until=until):
                wait = until - self.context.clock.now()
                self.messages.postpone(batch, message, round(wait.total_seconds()))
            case Duplicate():
                logger.info(
                    "duplicate submission deleted",
                    extra={"lease": message.key, "message_id": message.message_id},
                )
                batch.kept.discard(message.message_id)
            case Conflict(lease=other):
                text = (
                    f"job_id {other.job_id!r} belongs to a different request "
                    f"(run {other.run}, {other.state.value}); give this one another job_id"
                )
                reason = refusal(CONFLICTING, text, message.sent_at, message.key, message.request)
                self.messages.dead_letter(batch, message.message_id, message.content, reason)
        return None

    def _begin(self, message: JobMessage, claim: Claim, batch: Batch) -> Lease | None:
        """Let a claim wait for a slot.

        Returns the row of a job whose tree was cancelled since the message was sent: it ends first.
        """
        if claim.starts_run and not self._is_allowed(message, claim.replaces, batch):
            return None
        if (at := self._tree_cancelled_at(message, claim)) is not None:
            return self.context.leases.request_cancel(message.key, batch.stage.name, at)
        batch.waiting.append((message, claim))
        return None

    def _tree_cancelled_at(self, message: JobMessage, claim: Claim) -> datetime | None:
        """When the tree of the job was cancelled, if that covers what begins."""
        row = claim.replaces
        if row is None or claim.starts_run:  # what the message says of its lineage is proven by now
            lineage, asked_at = run_lineage(message, row), message.first_sent_at
        else:
            lineage, asked_at = row.lineage, row.asked_at
        root = self.context.leases.load(lineage.root) if lineage else None
        return root.tree_cancelled_at if root and root.cancels_tree(asked_at) else None

    def _end_waiting(self, waiting: Lease, covered: JobMessage | None) -> Lease:
        """End a cancelled job; returns its row. `covered`: the message that ends with it."""
        ended = end_cancelled(waiting, self.context.clock.now())
        if covered is not None:
            # A cancel mark made before the first claim has no lineage and no names. Take the
            # message's, so that a correction keeps its place in the join, and is called alike.
            stage = self.context.settings.stage(waiting.stage)
            lineage = waiting.lineage or self.descent.proven_lineage(covered, stage, waiting)
            if waiting.is_mark:  # a retry sends it
                self.context.requests.put(covered.request_ref, covered.content)
            ended = replace(
                adopted(ended, covered),
                request_ref=waiting.request_ref or covered.request_ref,
                lineage=lineage,
                label=waiting.label or covered.request.label,
                tags=waiting.tags or covered.request.tags,
            )
        self.context.leases.apply(transitions.end_waiting(waiting, ended))
        return ended

    def _is_allowed(self, message: JobMessage, row: Lease | None, batch: Batch) -> bool:
        """Whether a run may start; refuses the message if not.

        At once, so that the reason does not wait for a slot.
        """
        try:
            # First: what is not proven is not of the job, whatever else is wrong with it.
            request = self.descent.proven(message, batch.stage, row)
            require_room(message.content)
            check_policy(request, self.context.settings, batch.stage)
        except SupersededError as error:
            # The later run leads to this job again, if it does.
            logger.info("superseded: deleted", extra={"lease": message.key, "why": str(error)})
            batch.kept.discard(message.message_id)
            return False
        except InvalidRequestError as error:
            reason = refusal(INVALID, str(error), message.sent_at, message.key, message.request)
            if isinstance(error, UnprovenError):
                self.messages.dead_letter(batch, message.message_id, message.content, reason)
            else:
                receive, asked = first_receive(message), message.request
                self.messages.refuse(
                    batch, receive, message.content, reason, request=asked, row=row
                )
            return False
        return True

    def _claim_and_finish(self, batch: Batch) -> None:
        """Claim what waits, and beside it do what is slow.

        A publication may take minutes, and a notice hang: no claim waits for it. What had to be
        finished before its claim is claimed in the next round.
        """
        while (batch.waiting or batch.slow) and not batch.is_over(self.context.clock.now()):
            slow, batch.slow = batch.slow, []
            tasks: list[Callable[[], None]] = [
                partial(self._claim, batch),
                *([partial(self._do_slowly, slow, batch)] if slow else []),
                *self.messages.endings(batch),
            ]
            self.context.background.run_all(tasks, at_once=len(tasks))
            if batch.waiting:
                batch.room = self.context.slots.room(batch.stage, self.context.clock.now())

    def _claim(self, batch: Batch) -> None:
        """Claim what waits while slots are free; put the rest back at once."""
        try:
            self.claimer.claim_retries(batch)
            while not batch.is_over(self.context.clock.now()):
                claims = self.claimer.first(batch)
                if not claims:  # nothing waits, or no slot is free
                    break
                self._handle(self.claimer.claim(claims, batch), batch)
                if batch.waiting:
                    batch.room = self.context.slots.room(batch.stage, self.context.clock.now())
            self.claimer.put_back(batch)
        except Exception:
            # Any error of a call for all of them: they come again when their visibility lapses.
            logger.exception("the messages without a slot stay in the queue")
            batch.waiting.clear()

    def _do_slowly(self, slow: Iterable[tuple[JobMessage, Finish | Closed]], batch: Batch) -> None:
        """Finish and settle one job after the other.

        Each may read a list and a manifest that a task wrote: two of the largest do not fit into a
        function's memory.
        """
        for message, what in slow:
            if batch.is_over(self.context.clock.now()):
                return
            with self.messages.guard(batch, message):
                match what:
                    case Closed(attempt=attempt, status=status):
                        closed = Evidence.execution_closed(status)
                        self.settler.settle(attempt, closed, batch.until)
                    case Finish(lease=ended, own=True):
                        self._finish_own(message, ended, batch)
                    case Finish(lease=ended):
                        self._finish_first(message, ended, batch)

    def _finish_own(self, message: JobMessage, ended: Lease, batch: Batch) -> None:
        # The handle in hand is newer than the row's.
        own = with_handle(ended, message.receipt_handle)
        finished = self.finisher.finish(own, batch.until)
        if finished.is_finished:
            batch.kept.discard(message.message_id)
        elif finished.state.is_terminal:
            # What is owed for a day or more must not wear the message out.
            self.messages.postpone(batch, message, _OWED_S)

    def _finish_first(self, message: JobMessage, ended: Lease, batch: Batch) -> None:
        finished = self.finisher.finish(ended, batch.until)
        if finished.is_finished:
            self._handle([(message, finished)], batch)
        else:
            self.messages.postpone(batch, message, _OWED_S)


def _is_retry(row: Lease | None) -> bool:
    return row is not None and row.state is State.RELEASED


@contextmanager
def _unless_it_fails(
    message_id: str, failed: Callable[[Exception], None] = lambda _: None
) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Any error: the message stays in the queue and comes again; the others go on.
        logger.exception("this message stays in the queue", extra={"message_id": message_id})
        try:
            failed(error)
        except Exception:
            logger.exception("not given up: the next error does", extra={"id": message_id})
