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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters.aws_time import AwsTime
from longhaul.adapters.dynamodb import item as items
from longhaul.adapters.dynamodb.conflicts import TRIES, Conflicts
from longhaul.adapters.dynamodb.item import mine, serialize, serialized, update_expression
from longhaul.adapters.dynamodb.slots import DynamoSlots, slots_key
from longhaul.adapters.errors import code_of
from longhaul.domain.beat import beaten
from longhaul.domain.claim import (
    Claim,
    adopted,
    cancelled,
    cancelled_before_claim,
    seen,
)
from longhaul.domain.errors import LeaseChangedError, NoFreeSlotError, UnreadableRowError
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
from longhaul.domain.outcome import noted_gone, reopened, struck
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
SAME_LOOK = "gone_at = :gone_at"  # of two later looks one completes the uploads
NOT_CANCELLED = "attribute_not_exists(cancel_requested_at)"  # no commit outruns the mark
# A claim does not erase a cancel that covers its message.
NEVER_CANCELLED = "attribute_not_exists(cancelled_at)"
SAME_CANCEL = "cancelled_at = :cancelled_at"
NEWER_RECEIVE = "receive_count < :receive_count"  # of two adoptions the newer receive stays
SAME_HANDLE = "receipt_handle = :receipt_handle"  # a newer receive's handle is never cleared
SAME_MESSAGE = "message_id = :message_id"  # a copy that another copy has replaced
SAME_OWED = "owed = :owed"  # what another finisher has struck off is not owed again

# Some names are DynamoDB's own words.
_PLACEHOLDERS = {"#key": "key", "#state": "state", "#output": "output"}
_BATCH_GET = 100


class DynamoLeases:
    """`ports.Leases`.

    A failed condition becomes LeaseChangedError with the row that won. A conflict with another
    transaction is over in milliseconds, and tried again with jitter. Other errors are raised as
    they are.
    """

    def __init__(
        self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random
    ) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._rng = rng
        self._aws_time = AwsTime(clock)
        self._conflicts = Conflicts(clock, rng)
        self._slots = DynamoSlots(client, table, clock, rng)

    def load(self, key: str) -> Lease | None:
        answer = self._client.get_item(
            TableName=self._table, Key=items.lease_key(key), ConsistentRead=True
        )
        self._aws_time.heard(answer)
        return items.from_item(answer["Item"]) if "Item" in answer else None

    def aws_time(self) -> datetime:
        return self._aws_time.now()

    def load_many(self, keys: Iterable[str]) -> Rows:
        return _rows(self._get_many(items.lease_key(key) for key in dict.fromkeys(keys)))

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Rows, Room]:
        wanted = [items.lease_key(key) for key in dict.fromkeys(keys)]
        slots = slots_key(stage.name)
        found = {items.key_of(item): item for item in self._get_many([*wanted, slots])}
        room = self._slots.room_in(stage, found.pop(items.key_of(slots), {}), now)
        return _rows(found.values()), room

    def history(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[AttemptRecord]]:
        """The row's attempt says which items there may be, so a hundred of them are one call."""
        wanted = {row.key: row for row in rows}
        kept: dict[str, list[AttemptRecord]] = {key: [] for key in wanted}
        keys = (items.attempt_key(key, n) for key, row in wanted.items() for n in remembered(row))
        for item in self._get_many(keys):
            with suppress(UnreadableRowError):
                kept[items.key_of(item)].append(items.record_from(item))
        return {key: history(row, kept[key]) for key, row in wanted.items()}

    def claim(self, claim: Claim, stage: Stage, pace: Pace | None = None) -> None:
        """The row becomes RUNNING and the stage's counter goes up, both or neither."""
        before, clauses, values = claim.replaces, [ABSENT], {}
        if before is not None:
            clauses, values = [SAME_STATE, MINE, NEVER_CANCELLED], _same_state(before)
            if before.cancelled_at:
                clauses[-1] = SAME_CANCEL
                values |= _as_placeholders(before, "cancelled_at")
        put = {
            "TableName": self._table,
            "Item": items.to_item(claim.lease),
            **_condition(clauses, {}, values),
        }
        try:
            self._transact({"Put": put}, self._slots.taken(stage, pace))
        except LeaseChangedError as error:
            _own_write(error, lambda row: row == claim.lease)

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
            return _own_write(
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
            return _own_write(
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
            return _own_write(error, lambda row: row.id == attempt and row.attempt.output == output)

    def mark_published(self, attempt: AttemptId, now: datetime) -> Lease:
        return self._set(attempt, {"published_at": now})

    def settle(self, before: Lease, after: Lease) -> None:
        """The attempt ends, its slot is free and its record is kept, all or nothing."""
        clauses = [RUNNING, MINE] if before.attempt.output else [RUNNING, MINE, UNCOMMITTED]
        self._transact(
            {"Update": self._change(before, after, clauses, _running(before.id))},
            self._slots.given_back(before.stage),
            self._keep(ended(before, after)),
        )

    def end_waiting(self, before: Lease, after: Lease) -> None:
        clauses, values = [SAME_STATE, MINE], _same_state(before)
        if before.owed:
            clauses.append(SAME_OWED)
            values |= _as_placeholders(before, "owed")
        try:
            self._write(self._change(before, after, clauses, values))
        except LeaseChangedError as error:
            _own_write(
                error,
                lambda row: (
                    row.id == after.id and row.state is after.state and row.owed == after.owed
                ),
            )

    def strike(self, lease: Lease, done: Owed, now: datetime) -> Lease:
        after = struck(lease, done, now)
        values = _same_state(lease) | _as_placeholders(lease, "owed")
        try:
            self._write(self._change(lease, after, [SAME_STATE, MINE, SAME_OWED], values))
        except LeaseChangedError as error:
            return _own_write(
                error,
                lambda row: (
                    row.id == lease.id and row.state is lease.state and done not in row.owed
                ),
            )
        return after

    def note_gone(self, lease: Lease, now: datetime) -> Lease:
        after = noted_gone(lease, now)
        look, values = NOT_GONE, _same_state(lease)
        if lease.attempt.gone_at is not None:
            look = SAME_LOOK
            values[":gone_at"] = items.attributes_of(lease, ["gone_at"])["gone_at"]
        try:
            clauses = [SAME_STATE, MINE, UNPUBLISHED, look]
            self._write(self._change(lease, after, clauses, values))
        except LeaseChangedError as error:
            return _own_write(error, lambda row: row.id == lease.id and row.attempt.gone_at == now)
        return after

    def reopen(self, lease: Lease, now: datetime) -> Lease:
        after = reopened(lease, now)
        clauses = [SAME_STATE, MINE, UNPUBLISHED]
        try:
            self._transact(
                {"Update": self._change(lease, after, clauses, _same_state(lease))},
                self._keep(latest(after)),
            )
        except LeaseChangedError as error:
            return _own_write(
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
                    return self._put_mark(cancelled_before_claim(key, stage, now))
                after = cancelled(row, now)
                if after != row:  # DynamoDB refuses an update that changes nothing
                    self._write(self._change(row, after, [SAME_STATE, MINE], _same_state(row)))
            except LeaseChangedError:
                continue  # it was claimed, settled or marked meanwhile
            return after
        raise LeaseChangedError(row)

    def note_seen(self, lease: Lease, now: datetime) -> Lease:
        after = seen(lease, now)
        self._write(self._change(lease, after, [SAME_STATE, MINE], _same_state(lease)))
        return after

    def _put_mark(self, mark: Lease) -> Lease:
        try:
            self._conflicts.outlast(
                lambda: self._client.put_item(
                    TableName=self._table,
                    Item=items.to_item(mark),
                    **_condition([ABSENT], {}, {}),
                )
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            raise LeaseChangedError(None) from error
        return mark

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
        return items.from_item(self._write(request, returns="ALL_NEW"))

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
            **_condition(clauses, names, values),
        }

    def _write(self, request: Mapping[str, Any], returns: str = "NONE") -> Mapping[str, Any]:
        """One conditional update; returns the attributes that were asked for."""
        try:
            answer = self._conflicts.outlast(
                lambda: self._client.update_item(
                    **request,
                    ReturnValues=returns,  # type: ignore[arg-type]  # a Literal in the stubs
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            raise LeaseChangedError(_winner(error.response)) from error
        return answer.get("Attributes", {})

    def _transact(self, row: dict[str, Any], *others: dict[str, Any]) -> None:
        """Write the row and the others, or nothing.

        Of the others only a slots' counter has a condition: NoFreeSlotError when it fails.
        """
        ((kind, write),) = row.items()
        of_row = {kind: write | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}
        transaction: Any = [of_row, *others]
        for is_last in self._conflicts.tries():
            try:
                self._client.transact_write_items(TransactItems=transaction)
            except ClientError as error:
                if code_of(error) != "TransactionCanceledException":
                    raise
                _raise_failed_condition(error)
                if is_last:
                    raise
            else:
                return

    def _get_many(self, keys: Iterable[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The items that exist, in no order; strongly consistent, up to 100 in one call.

        Keys that DynamoDB leaves unprocessed are requested again.
        """
        wanted = list(keys)
        while wanted:
            batch, wanted = wanted[:_BATCH_GET], wanted[_BATCH_GET:]
            answer = self._client.batch_get_item(
                RequestItems={self._table: {"Keys": batch, "ConsistentRead": True}}
            )
            self._aws_time.heard(answer)
            yield from answer["Responses"].get(self._table, [])
            left = answer.get("UnprocessedKeys", {}).get(self._table)
            if left:
                wanted = [dict(key) for key in left["Keys"]] + wanted
                self._clock.sleep(self._rng.uniform(0.05, 0.2))


def _rows(found: Iterable[Mapping[str, Any]]) -> Rows:
    """Each item by itself: one that cannot be read leaves the others readable."""
    readable: dict[str, Lease] = {}
    unreadable = set()
    for item in found:
        try:
            readable[items.key_of(item)] = items.from_item(item)
        except UnreadableRowError as error:
            unreadable.add(error.key)
    return Rows(readable, unreadable)


def _condition(
    clauses: Iterable[str], names: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a conditional write: DynamoDB refuses empty and unused ones."""
    condition = " AND ".join(clauses)
    used = {mark: name for mark, name in _PLACEHOLDERS.items() if mark in condition}
    arguments: dict[str, Any] = {"ConditionExpression": condition}
    if all_names := {**names, **used}:
        arguments["ExpressionAttributeNames"] = all_names
    if values:
        arguments["ExpressionAttributeValues"] = values
    return arguments


def _running(attempt: AttemptId) -> dict[str, Any]:
    """Values of RUNNING and MINE."""
    return {":running": serialize(State.RUNNING.value), **mine(attempt)}


def _same_state(before: Lease) -> dict[str, Any]:
    """Values of SAME_STATE and MINE."""
    return {":state": serialize(before.state.value), **mine(before.id)}


def _as_placeholders(row: Lease, name: str) -> dict[str, Any]:
    """The value of a clause that wants an attribute as it is in `row`."""
    return {f":{name}": items.attributes_of(row, [name])[name]}


def _own_write(error: LeaseChangedError, is_ours: Callable[[Lease], bool]) -> Lease:
    """The row that won, if this very write made it: the SDK retries after a lost answer.

    Raises:
        LeaseChangedError: another write won.
    """
    if error.current is None or not is_ours(error.current):
        raise error
    return error.current


def _raise_failed_condition(error: ClientError) -> None:
    """Raise what a cancelled transaction's conditions say; return when none failed."""
    of_row, *of_others = error.response["CancellationReasons"]
    if of_row.get("Code") == "ConditionalCheckFailed":
        raise LeaseChangedError(_winner(of_row)) from error
    if any(reason.get("Code") == "ConditionalCheckFailed" for reason in of_others):
        raise NoFreeSlotError from error


def _winner(response: Any) -> Lease | None:  # noqa: ANN401 - an error response, or a reason
    item = response.get("Item")
    return items.from_item(item) if item else None
