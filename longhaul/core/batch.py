"""A batch of deliveries: what happens to its messages, how attempts start, what errors do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import floor

from aws_lambda_powertools import Logger

from longhaul.core import beat, transitions
from longhaul.core.beat import MAX_VISIBILITY_S
from longhaul.core.claim import Claim, Finish, PlanRun, first_receive
from longhaul.core.dead_letter import Reason, dead_letter, refusal
from longhaul.core.errors import LeaseChangedError
from longhaul.core.finish import Finisher
from longhaul.core.giving_up import GivingUp, refuse
from longhaul.core.lease import (
    AttemptId,
    Lease,
    Receive,
    State,
    joined_ref,
    with_emission,
    with_handle,
    with_next,
)
from longhaul.core.logs import about
from longhaul.core.message import Delivery, JobMessage, Message, renewal
from longhaul.core.metrics import Metric, StageMetric
from longhaul.core.pace import MAX_HIDDEN, Pace, Room, deferrals_s
from longhaul.core.ports import Context
from longhaul.core.request import JobRequest
from longhaul.core.seams import Announcer, Descent
from longhaul.core.settings import Stage
from longhaul.core.settlement import INTERNAL_ERROR, explained

logger = Logger(child=True)

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

    def ends(self, message_id: str, dead: Lease) -> None:
        """The job of a message is dead: its row says what is left to do."""
        self.dead_lettered.append(message_id)
        self.refused.append((message_id, dead))

    def struck_off(self, message_id: str, reason: Reason) -> None:
        """A message has its dead letter. It is told later: a target that hangs holds up nothing."""
        self.kept.discard(message_id)
        self.dead_lettered.append(message_id)
        self.refused.append((message_id, reason))

    def measured(self) -> dict[Metric, float]:
        values: dict[Metric, float] = {}
        if self.started:
            values[StageMetric.STARTED] = len(self.started)
        if self.dead_lettered:
            values[StageMetric.DEAD_LETTERED] = len(self.dead_lettered)
        if self.deferred_s:
            values[StageMetric.OLDEST_WAITING] = max(self.deferred_s)
        if self.rarely_seen:
            values[StageMetric.NEAR_RETENTION] = len(self.rarely_seen)
        return values


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Puts messages back, renews them, and dead-letters them.

    The mapping deletes every message that is not kept.
    """

    context: Context
    announcer: Announcer
    finisher: Finisher
    most_hidden: int = MAX_HIDDEN

    def hold(self, batch: Batch, message: JobMessage, seconds: int) -> None:
        """Make the message visible after these seconds."""
        self.context.queue.set_visibility(batch.stage.queue_url, message.receipt_handle, seconds)

    def postpone(self, batch: Batch, message: JobMessage, seconds: int) -> None:
        """As `hold`, for a message that may come so often that it wears out.

        Where that is longer than SQS hides a message, it comes in between, and is put back again.
        """
        if not self.renew_if_worn_out(batch, message):
            held_s = (self.context.clock.now() - message.received_at).total_seconds()
            self.hold(batch, message, max(0, min(seconds, floor(MAX_VISIBILITY_S - held_s))))

    def postpone_until(self, batch: Batch, message: JobMessage, until: datetime) -> None:
        self.postpone(batch, message, round((until - self.context.clock.now()).total_seconds()))

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
        batch.ends(receive.message_id, replace(dead, receive=receive))
        _log_refused(receive.message_id, reason)

    def dead_letter(self, batch: Batch, message_id: str, content: Message, reason: Reason) -> None:
        """Dead-letter a message that says nothing of the job whose id it has.

        Send first, delete afterwards: a crash in between sends it twice, and loses nothing.
        """
        self.context.queue.send(batch.stage.dead_letter_queue_url, dead_letter(content, reason))
        batch.struck_off(message_id, reason)
        _log_refused(message_id, reason)

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
        held = batch.room.running + batch.room.planned
        waiting = max(len(messages), depth.visible + depth.hidden - held)
        likely_wait_s = waiting * batch.room.gap_s(self.context.clock.now())
        if depth.hidden >= self.most_hidden:
            likely_wait_s = 0
        seconds = deferrals_s(len(messages), likely_wait_s, self.context.timing, self.context.rng)
        handles = [message.receipt_handle for message in messages]
        self.context.queue.set_visibility_many(
            batch.stage.queue_url, dict(zip(handles, seconds, strict=True))
        )


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Errors of one message: it stays in the queue, and the others of its batch go on.

    A message that fails again and again becomes a dead letter.
    """

    context: Context
    finisher: Finisher
    giving_up: GivingUp

    @contextmanager
    def message(self, batch: Batch, message: JobMessage) -> Iterator[None]:
        """Any error in the block: the message stays in the queue and comes again."""
        failed = partial(self._failed, message, batch)
        named = about(message.key, message.request.label)
        with named, _unless_it_fails(message.message_id, failed):
            yield

    @contextmanager
    def delivery(self, batch: Batch, delivery: Delivery) -> Iterator[None]:
        """The same before the job of a message is known."""
        with _unless_it_fails(delivery.message_id, partial(self._failed_to_read, delivery, batch)):
            yield

    def _failed_to_read(self, delivery: Delivery, batch: Batch, error: Exception) -> None:
        """Count an error before the job of a message was known."""
        place = f"{batch.stage.name}#{delivery.message_id}"
        if self.giving_up.is_due(place, delivery.message_id, error):
            text = explained(error, "this message could not be read, or not be refused")
            reason = refusal(INTERNAL_ERROR, text, delivery.sent_at)
            self._dead_letter(batch, delivery.message_id, delivery.content, reason)

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
            if row is None and (dead := self._noted(message, batch, reason)):
                batch.ends(message.message_id, dead)
            else:
                self._dead_letter(batch, message.message_id, message.content, reason)
        elif row.state is State.RELEASED:
            ended = with_handle(self.giving_up.end(row, error), message.receipt_handle)
            if self.finisher.finish(ended, batch.until).is_finished:
                batch.kept.discard(message.message_id)

    def _noted(self, message: JobMessage, batch: Batch, reason: Reason) -> Lease | None:
        """The dead row of a message that is given up, if it can be written."""
        try:
            return refuse(
                self.context,
                batch.stage,
                message.content,
                reason,
                first_receive(message),
                request=message.request,
            )
        except Exception:
            logger.exception("a dead letter without a row", extra={"lease": message.key})
            return None

    def _dead_letter(self, batch: Batch, message_id: str, content: Message, reason: Reason) -> None:
        self.giving_up.send(batch.stage.dead_letter_queue_url, lambda: content, reason)
        batch.struck_off(message_id, reason)


def _log_refused(message_id: str, reason: Reason) -> None:
    logger.warning(
        "dead-lettered",
        extra={"message_id": message_id, "class": reason.kind, "reason": reason.reason},
    )


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


_STOPPING_S = 15
"""Wait for the task of the previous run to end.

Most end within seconds, one that ignores SIGTERM after `stop_timeout_s`.
"""


@dataclass(frozen=True, kw_only=True)
class Starter:
    context: Context
    messages: Messages
    descent: Descent

    def start(self, message: JobMessage, claim: Claim, batch: Batch, pace: Pace) -> None:
        if self._is_task_left(claim):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        if claim.starts_run:
            claim = replace(claim, lease=self._run_of(message, claim.lease))
        lease = claim.lease
        closed_as = self.claim_and_start(claim, batch, pace)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
        else:
            self._hold_until_first_beat(message, lease, batch)

    def begin_later(self, message: JobMessage, plan: PlanRun, batch: Batch) -> None:
        """Take a job whose run begins later, and hide its message until then."""
        # The new row forgets the task, and the run may begin in a moment.
        if self._is_task_left(plan):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        lease = self._run_of(message, plan.lease)
        self.context.leases.apply(transitions.begin_later(replace(plan, lease=lease)))
        logger.info("job planned", extra={"lease": lease.key, "run": lease.run})
        self.messages.postpone_until(batch, message, message.due_at)

    def _run_of(self, message: JobMessage, lease: Lease) -> Lease:
        """The row with what belongs to its run; the request is stored beside it."""
        self.context.requests.put(lease.request_ref, message.content)
        return with_next(self.descent.with_joins(lease), self.context.settings)

    def claim_and_start(self, claim: Claim, batch: Batch, pace: Pace) -> str | None:
        """Returns the status in which the execution has closed already; None while it runs."""
        lease = with_emission(claim.lease, batch.stage)
        claim = replace(claim, lease=lease)
        self.context.leases.apply(transitions.claim(claim, batch.stage, pace))
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

    def _is_task_left(self, claim: Claim | PlanRun) -> bool:
        """Whether the previous attempt's task still runs; it is stopped then.

        A released message becomes visible after that task is gone. The message of a job that is
        submitted again may come sooner.
        """
        if claim.replaces is None:
            return False
        task_arn = claim.replaces.attempt.task_arn
        same_message = claim.replaces.receive.message_id == claim.lease.receive.message_id
        if task_arn is None or same_message or claim.replaces.attempt.is_over:
            return False
        why = "Longhaul: the job was submitted again"
        stopped = self.context.tasks.stop(task_arn, claim.replaces.id, why)
        if not stopped.is_gone:
            logger.info(
                "the task of the run before may still run: a new run waits for its end",
                extra={"lease": claim.lease.key, "task": task_arn, "gone_by": stopped.gone_by},
            )
        return not stopped.is_gone
