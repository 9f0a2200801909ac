"""The leases: each rule is one conditional write here, whose clauses are named below.

What a row becomes is decided in `longhaul.domain`; here it is written, or refused.

time ───────────────────────────────────────────────────────────────────────────────►
attempt 1   claim ── register ── progress ──x (stalls; settled; released)
attempt 2                                     claim ── register ── commit ── settle
attempt 1                                       progress ✗ MINE: the attempt moved on
attempt 1                                           commit ✗ MINE
settle of attempt 1, late or repeated                 settle ✗ MINE: the row says settled
second task of attempt 2 (RunTask's answer was lost)         register ✗ FIRST_TASK
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from longhaul.adapters.dynamodb import item as items
from longhaul.adapters.dynamodb.conflicts import TRIES
from longhaul.adapters.dynamodb.item import mine, serialize, serialized, update_expression
from longhaul.adapters.dynamodb.reads import BATCH_GET, Reads, rows_of
from longhaul.adapters.dynamodb.slots import DynamoSlots, slots_key
from longhaul.adapters.dynamodb.table import TTL
from longhaul.adapters.dynamodb.writes import ConditionalWrites, condition, own_write
from longhaul.domain.beat import beaten
from longhaul.domain.claim import (
    Claim,
    adopted,
    cancelled,
    cancelled_before_claim,
    seen,
)
from longhaul.domain.errors import LeaseChangedError, UnreadableRowError
from longhaul.domain.history import AttemptRecord, ended, history, latest, remembered
from longhaul.domain.lease import (
    AttemptId,
    CommittedOutput,
    Lease,
    Owed,
    RecordedResult,
    State,
    progressed,
    registered,
)
from longhaul.domain.message import JobMessage
from longhaul.domain.outcome import noted_gone, noted_untold, struck
from longhaul.domain.pace import Pace, Room
from longhaul.ports import Clock, Rows
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The clauses of the conditions, each with what it keeps out.
ABSENT = "attribute_not_exists(#key)"  # a job that was claimed or marked meanwhile
RUNNING = "#state = :running"  # a settled attempt writes nothing
SAME_STATE = "#state = :state"  # a row that was claimed or settled meanwhile
MINE = "run = :run AND attempt = :attempt"  # an older attempt or run writes nothing
# A RunTask whose answer was lost cannot make two tasks work.
FIRST_TASK = "(attribute_not_exists(task_arn) OR task_arn = :task_arn)"
UNCOMMITTED = "attribute_not_exists(#output)"  # one commit per run; a failure never overrules it
UNPUBLISHED = "attribute_not_exists(published_at)"  # a published output is not void
NOT_GONE = "attribute_not_exists(gone_at)"  # of two first looks one is noted
EARLIER_TTL = "#ttl < :ttl"  # without one the row does not expire
NEVER_UNTOLD = "attribute_not_exists(untold_at)"  # the first time counts
SAME_LOOK = "gone_at = :gone_at"  # of two later looks one completes the uploads
NOT_CANCELLED = "attribute_not_exists(cancel_requested_at)"  # no commit outruns the mark
# A claim does not erase a cancel that covers its message.
NEVER_CANCELLED = "attribute_not_exists(cancelled_at)"
SAME_CANCEL = "cancelled_at = :cancelled_at"
NEWER_RECEIVE = "receive_count < :receive_count"  # of two adoptions the newer receive stays
SAME_HANDLE = "receipt_handle = :receipt_handle"  # a newer receive's handle is never cleared
SAME_MESSAGE = "message_id = :message_id"  # a copy that another copy has replaced
# Of two that miss a message one sends its copy.
NEVER_SEEN = "attribute_not_exists(seen_at)"
SAME_SEEN = "seen_at = :seen_at"
SAME_OWED = "owed = :owed"  # what another finisher has struck off is not owed again


class DynamoLeases:
    """`ports.Leases`."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        clock: Clock,
        rng: random.Random,
        *,
        most: int = BATCH_GET,
    ) -> None:
        """`most`: how many rows an answer of DynamoDB may have."""
        self._table = table
        self._reads = Reads(client, table, clock, rng, most)
        self._writes = ConditionalWrites(client, table, clock, rng)
        self._slots = DynamoSlots(client, table, clock, rng)

    def load(self, key: str) -> Lease | None:
        return self._reads.lease(key)

    def aws_time(self) -> datetime:
        return self._reads.aws_time()

    def load_many(self, keys: Iterable[str]) -> Rows:
        return rows_of(self._reads.many(items.lease_key(key) for key in dict.fromkeys(keys)))

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Rows, Room]:
        wanted = [items.lease_key(key) for key in dict.fromkeys(keys)]
        slots = slots_key(stage.name)
        found = {items.key_of(item): item for item in self._reads.many([*wanted, slots])}
        room = self._slots.room_in(stage, found.pop(items.key_of(slots), {}), now)
        return rows_of(found.values()), room

    def history(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[AttemptRecord]]:
        """The row's attempt says which items there may be, so a hundred of them are one call."""
        wanted = {row.key: row for row in rows}
        kept: dict[str, list[AttemptRecord]] = {key: [] for key in wanted}
        keys = (items.attempt_key(key, n) for key, row in wanted.items() for n in remembered(row))
        for item in self._reads.many(keys):
            with suppress(UnreadableRowError):
                kept[items.key_of(item)].append(items.record_from(item))
        return {key: history(row, kept[key]) for key, row in wanted.items()}

    def claim(self, claim: Claim, stage: Stage, pace: Pace | None = None) -> None:
        """The row becomes RUNNING and the stage's counter goes up, both or neither."""
        before, clauses = claim.replaces, [ABSENT]
        values: dict[str, Any] = {}
        if before is not None:
            same_cancel, values = _same_cancel(before)
            clauses, values = [SAME_STATE, MINE, same_cancel], _same_state(before) | values
        put = {
            "TableName": self._table,
            "Item": items.to_item(claim.lease),
            **condition(clauses, {}, values),
        }
        try:
            self._writes.transact({"Put": put}, self._slots.taken(stage, pace))
        except LeaseChangedError as error:
            own_write(error, lambda row: row == claim.lease)

    def adopt(self, lease: Lease, message: JobMessage) -> Lease:
        after = adopted(lease, message)
        names = ["receipt_handle", "receive_count", "received_at", "sent_at"]
        clauses = [SAME_MESSAGE]
        values: dict[str, Any] = {":message_id": lease.receive.message_id}
        if after.receive.message_id == lease.receive.message_id:
            clauses.append(NEWER_RECEIVE)
            values[":receive_count"] = message.receive_count
        else:
            names.append("message_id")
            names += ["renews"] if after.receive.renews else []
        update = update_expression(items.attributes_of(after, names), add={"adoptions": 1})
        try:
            return self._update(lease.id, update, clauses, values)
        except LeaseChangedError as error:
            return own_write(
                error,
                lambda row: (
                    row.id == lease.id
                    and row.receive.receipt_handle == after.receive.receipt_handle
                    and row.receive.receive_count == after.receive.receive_count
                    and row.receive.message_id == after.receive.message_id
                ),
            )

    def beat(self, lease: Lease, now: datetime, lease_expires_at: datetime) -> Lease:
        after = beaten(lease, now, lease_expires_at)
        sets = items.attributes_of(after, ["lease_expires_at", "beats", "beat_ages_s"])
        return self._update(lease.id, update_expression(sets))

    def hand_over(self, attempt: AttemptId, receipt_handle: str) -> Lease:
        update = update_expression({}, ["receipt_handle"], add={"hand_overs": 1})
        values = {":receipt_handle": receipt_handle}
        try:
            return self._update(attempt, update, [SAME_HANDLE], values)
        except LeaseChangedError as error:
            return own_write(
                error, lambda row: row.owns(attempt) and row.receive.receipt_handle is None
            )

    def register_task(self, attempt: AttemptId, task_arn: str, now: datetime) -> Lease:
        return self._set(
            attempt,
            registered(task_arn, now),
            [FIRST_TASK],
            {":task_arn": task_arn},
        )

    def report_progress(
        self,
        attempt: AttemptId,
        progress: Mapping[str, Any],
        progress_at: datetime,
        reported_at: datetime | None = None,
    ) -> Lease:
        fields = progressed(progress, progress_at, reported_at or progress_at)
        return self._set(attempt, fields)

    def record_result(self, attempt: AttemptId, result: RecordedResult) -> Lease:
        return self._set(attempt, {"result": result}, [UNCOMMITTED])

    def commit(self, attempt: AttemptId, output: CommittedOutput) -> Lease:
        clauses = [UNCOMMITTED, NOT_CANCELLED]
        try:
            return self._set(attempt, {"output": output}, clauses)
        except LeaseChangedError as error:
            return own_write(error, lambda row: row.id == attempt and row.attempt.output == output)

    def mark_published(self, attempt: AttemptId, now: datetime) -> Lease:
        return self._set(attempt, {"published_at": now})

    def settle(self, before: Lease, after: Lease) -> None:
        """The attempt ends, its slot is free and its record is kept, all or nothing."""
        clauses = [RUNNING, MINE] if before.attempt.output else [RUNNING, MINE, UNCOMMITTED]
        self._writes.transact(
            {"Update": self._change(before, after, clauses, _running(before.id))},
            self._slots.given_back(before.stage),
            self._keep(ended(before, after)),
        )

    def end_waiting(self, before: Lease, after: Lease) -> None:
        values = _as_placeholders(before, "owed") if before.owed else {}
        try:
            self._replace(before, after, [SAME_OWED] if before.owed else [], values)
        except LeaseChangedError as error:
            own_write(
                error,
                lambda row: (
                    row.id == after.id and row.state is after.state and row.owed == after.owed
                ),
            )

    def strike(self, lease: Lease, done: Owed, now: datetime) -> Lease:
        after = struck(lease, done, now)
        try:
            self._replace(lease, after, [SAME_OWED], _as_placeholders(lease, "owed"))
        except LeaseChangedError as error:
            return own_write(
                error,
                lambda row: (
                    row.id == lease.id and row.state is lease.state and done not in row.owed
                ),
            )
        return after

    def note_gone(self, lease: Lease, now: datetime) -> Lease:
        after = noted_gone(lease, now)
        look, values = NOT_GONE, {}
        if lease.attempt.gone_at is not None:
            look, values = SAME_LOOK, _as_placeholders(lease, "gone_at")
        try:
            self._replace(lease, after, [UNPUBLISHED, look], values)
        except LeaseChangedError as error:
            return own_write(error, lambda row: row.id == lease.id and row.attempt.gone_at == now)
        return after

    def keep(self, key: str, now: datetime) -> None:
        ttl = items.expiry(now)
        update = update_expression({TTL: ttl})
        with suppress(LeaseChangedError):  # unfinished, gone, or it lives as long anyway
            self._writes.update(self._request(key, update, [EARLIER_TTL], {":ttl": ttl}))

    def note_untold(self, lease: Lease, now: datetime) -> Lease:
        after = noted_untold(lease, now)
        clauses = [SAME_OWED, NEVER_UNTOLD]
        try:
            self._replace(lease, after, clauses, _as_placeholders(lease, "owed"))
        except LeaseChangedError as error:
            return own_write(
                error,
                lambda row: (
                    row.id == lease.id and row.owed == lease.owed and row.untold_at is not None
                ),
            )
        return after

    def reopen(self, lease: Lease, after: Lease) -> Lease:
        clauses = [SAME_STATE, MINE, UNPUBLISHED]
        try:
            self._writes.transact(
                {"Update": self._change(lease, after, clauses, _same_state(lease))},
                self._keep(latest(after)),
            )
        except LeaseChangedError as error:
            return own_write(
                error,
                lambda row: (
                    row.id == after.id
                    and row.state is after.state
                    and row.attempt.output == after.attempt.output
                    and row.retry_at == after.retry_at
                ),
            )
        return after

    def request_cancel(self, key: str, stage: str) -> Lease:
        """Of a job that has not been claimed yet, the mark is left for its claim to find."""
        for _ in range(TRIES):
            row = self.load(key)
            now = self.aws_time()
            try:
                if row is None:
                    after = cancelled_before_claim(key, stage, now)
                    self._writes.put(after, [ABSENT])
                else:
                    after = cancelled(row, now)
                    if after != row:  # DynamoDB refuses an update that changes nothing
                        self._cancel(row, after)
            except LeaseChangedError:
                continue  # it was claimed, settled or marked meanwhile
            return after
        raise LeaseChangedError(row)

    def _cancel(self, before: Lease, after: Lease) -> None:
        same_cancel, values = _same_cancel(before)
        try:
            # A write that the SDK repeats must not undo a later cancel.
            self._replace(before, after, [same_cancel], values)
        except LeaseChangedError as error:
            own_write(error, lambda row: row.cancelled_at == after.cancelled_at)

    def note_seen(self, lease: Lease, now: datetime) -> Lease:
        after = seen(lease, now)
        look, values = NEVER_SEEN, {}
        if lease.receive.seen_at is not None:
            look, values = SAME_SEEN, _as_placeholders(lease, "seen_at")
        try:
            self._replace(lease, after, [look], values)
        except LeaseChangedError as error:
            return own_write(
                error,
                lambda row: (
                    row.id == lease.id
                    and row.state is lease.state
                    and row.receive.seen_at == after.receive.seen_at
                ),
            )
        return after

    def _keep(self, record: AttemptRecord) -> dict[str, Any]:
        """The part of a transaction that keeps how an attempt ended."""
        return {"Put": {"TableName": self._table, "Item": items.record_item(record)}}

    def _set(
        self,
        attempt: AttemptId,
        fields: Mapping[str, Any],
        clauses: Iterable[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> Lease:
        """Set fields of the attempt that owns the lease; returns the row after the write."""
        return self._update(
            attempt, update_expression(items.attributes(fields)), clauses, values or {}
        )

    def _update(
        self,
        attempt: AttemptId,
        update: Mapping[str, Any],
        clauses: Iterable[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> Lease:
        """A write by the attempt that owns the lease; returns the row after it."""
        values = _running(attempt) | serialized(values or {})
        request = self._request(attempt.key, update, [RUNNING, MINE, *clauses], values)
        return items.from_item(self._writes.update(request, returns="ALL_NEW"))

    def _replace(
        self,
        before: Lease,
        after: Lease,
        clauses: Iterable[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the row `after`, unless its state or its attempt is another than before."""
        values = _same_state(before) | dict(values or {})
        self._writes.update(self._change(before, after, [SAME_STATE, MINE, *clauses], values))

    def _change(
        self, before: Lease, after: Lease, clauses: Iterable[str], values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The update that makes the row `after`.

        It touches only what differs: a mark or a progress report written meanwhile stays.
        """
        update = update_expression(*items.changes(before, after))
        return self._request(before.key, update, clauses, values)

    def _request(
        self,
        key: str,
        update: Mapping[str, Any],
        clauses: Iterable[str],
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        names = update["ExpressionAttributeNames"]
        values = update["ExpressionAttributeValues"] | values
        return {
            "TableName": self._table,
            "Key": items.lease_key(key),
            "UpdateExpression": update["UpdateExpression"],
            **condition(clauses, names, values),
        }


def _running(attempt: AttemptId) -> dict[str, Any]:
    """Values of RUNNING and MINE."""
    return {":running": serialize(State.RUNNING.value), **mine(attempt)}


def _same_cancel(lease: Lease) -> tuple[str, dict[str, Any]]:
    """The clause that no cancel came since the row was read, and its values."""
    if lease.cancelled_at is None:
        return NEVER_CANCELLED, {}
    return SAME_CANCEL, _as_placeholders(lease, "cancelled_at")


def _same_state(before: Lease) -> dict[str, Any]:
    """Values of SAME_STATE and MINE."""
    return {":state": serialize(before.state.value), **mine(before.id)}


def _as_placeholders(row: Lease, name: str) -> dict[str, Any]:
    """The value of a clause that wants an attribute as it is in `row`."""
    return {f":{name}": items.attributes_of(row, [name])[name]}
