"""The leases table. Each rule of the lease is one conditional write here; its clauses are named, and the timeline says what each keeps apart.

time ─────────────────────────────────────────────────────────────────────────────────────────►
attempt 1   claim ── register ── progress ── progress ───────x (stalls; settled; released)
attempt 2                                        claim ── register ── progress ── commit ── settle
attempt 1                                              progress ✗ MINE: attempt moved on
attempt 1                                                      commit ✗ MINE
settle 1 (late, repeated)                                                settle ✗ MINE, row answers: settled
second task of attempt 2 (RunTask's answer was lost)        register ✗ FIRST_TASK
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters import lease_item
from longhaul.adapters.dynamodb_indexes import Indexes
from longhaul.adapters.dynamodb_joins import DynamoJoins
from longhaul.adapters.dynamodb_reads import Reads
from longhaul.adapters.dynamodb_slots import DynamoSlots, slots_key
from longhaul.adapters.dynamodb_writes import CONFLICT_TRIES, Writes, expression, own_write
from longhaul.domain.beat import beaten
from longhaul.domain.claim import Claim, adopted, cancelled_before_claim
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.history import Attempt, ended, history, latest, remembered
from longhaul.domain.lease import AttemptId, CommittedOutput, Lease, Message, OpenKind, Owed, RecordedResult, State
from longhaul.ports import Clock
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The clauses of the conditions, each with what it keeps out.
RUNNING = "#state = :running"  # a settled attempt writes nothing
MINE = "run = :run AND attempt = :attempt"  # an older attempt, or one of an older run, writes nothing
FIRST_TASK = "(attribute_not_exists(task_arn) OR task_arn = :task_arn)"  # a RunTask whose answer was lost cannot make two tasks work
UNCOMMITTED = "attribute_not_exists(#output)"  # one commit per run; a failure never overrules it
NOT_CANCELLED = (
    "attribute_not_exists(cancel_requested_at)"  # a mark set meanwhile is not overwritten, nor outrun by a commit
)
NEWER_RECEIVE = "receive_count < :receive_count"  # two adoptions landing in reverse order
SAME_HANDLE = "receipt_handle = :receipt_handle"  # a newer receive's handle is never cleared
NOTHING_OWED = "attribute_not_exists(owed)"  # a new run does not wipe what the old one owes
SAME_MESSAGE = "message_id = :message_id"  # a renewal that another copy has overtaken


class DynamoLeases:
    """`ports.LeaseStore` on one table."""

    def __init__(self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._rng = rng
        self._reads = Reads(client, table, clock, rng)
        self._indexes = Indexes(client, table)
        self._writes = Writes(client, clock, rng)
        self._slots = DynamoSlots(client, table)
        self._joins = DynamoJoins(client, table)

    def load(self, key: str) -> Lease | None:
        item = self._client.get_item(TableName=self._table, Key=lease_item.key_of(key), ConsistentRead=True).get("Item")
        return lease_item.from_item(item) if item else None

    def load_many(self, keys: Iterable[str]) -> Mapping[str, Lease]:
        """The rows that exist, by key; strongly consistent, up to 100 in one call."""
        items = self._reads.items(lease_item.key_of(key) for key in dict.fromkeys(keys))
        return {item["key"]["S"]: lease_item.from_item(item) for item in items}

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Mapping[str, Lease], int]:
        slots = slots_key(stage.name)
        found = self._reads.items([*(lease_item.key_of(key) for key in dict.fromkeys(keys)), slots])
        items = {item["key"]["S"]: item for item in found}
        free = self._slots.free_in(stage, items.pop(slots["key"]["S"], {}), now)
        return {key: lease_item.from_item(item) for key, item in items.items()}, free

    def history(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[Attempt]]:
        """By key: which items there may be, the row's attempt tells, so that a hundred are one call."""
        wanted = {row.key: row for row in rows}
        kept: dict[str, list[Attempt]] = {key: [] for key in wanted}
        for item in self._reads.items(
            lease_item.attempt_key(row.key, n) for row in wanted.values() for n in remembered(row)
        ):
            kept[item["key"]["S"]].append(lease_item.attempt_from(item))
        return {key: history(row, kept[key]) for key, row in wanted.items()}

    def free_slots(self, stage: Stage, now: datetime) -> int:
        return self._slots.free_slots(stage, now)

    def slots_in_use(self, stage: Stage) -> int:
        return self._slots.in_use(stage)

    def blocked_s(self, stage: Stage, *, waiting: bool, now: datetime) -> float:
        return self._slots.blocked_s(stage, waiting=waiting, now=now)

    def throttled(self, stage: Stage, now: datetime) -> None:
        self._slots.throttled(stage, now)

    def claim(self, claim: Claim, stage: Stage) -> None:
        """The row becomes RUNNING and the stage's counter goes up, both or neither.

        Raises:
            NoFreeSlotError: the stage is full.
            LeaseChangedError: the row is not what the claim was decided on.
        """
        put: dict[str, Any] = {
            "TableName": self._table,
            "Item": lease_item.to_item(claim.lease),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        before = claim.replaces
        if before is None:
            put |= {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": "key"}}
        else:
            clauses = ["#state = :state", MINE, NOTHING_OWED]
            if before.state is State.RELEASED:
                clauses.append(NOT_CANCELLED)
            put |= {
                "ConditionExpression": " AND ".join(clauses),
                "ExpressionAttributeNames": {"#state": "state"},
                "ExpressionAttributeValues": {":state": {"S": before.state.value}, **_mine(before.id)},
            }
        try:
            self._writes.transact({"Put": put}, self._slots.change(stage.name, +1, limit=stage.slots))
        except LeaseChangedError as error:
            if error.current != claim.lease:  # else: our own write came back as a retry
                raise

    def adopt(self, lease: Lease, message: Message) -> Lease:
        after = adopted(lease, message)
        sets: dict[str, Any] = {
            "receipt_handle": after.receipt_handle,
            "receive_count": after.receive_count,
            "received_at": after.received_at,
            "sent_at": after.sent_at,
        }
        clauses = [RUNNING, MINE, SAME_MESSAGE]
        values = {":message_id": {"S": lease.message_id}}
        if after.message_id == lease.message_id:
            clauses.append(NEWER_RECEIVE)
            values[":receive_count"] = {"N": str(message.receive_count)}
        else:
            sets |= {"message_id": after.message_id, "former_message_ids": after.former_message_ids}
        try:
            return self._update(lease.id, sets, clauses=clauses, values=values, add={"adoptions": 1})
        except LeaseChangedError as error:
            return own_write(error, after, "receipt_handle", "receive_count", "message_id")

    def beat(self, lease: Lease, now: datetime, lease_expires_at: datetime) -> Lease:
        after = beaten(lease, now)
        sets = {"lease_expires_at": lease_expires_at, "beats": after.beats, "beat_ages_s": after.beat_ages_s}
        return self._update(lease.id, sets, clauses=[RUNNING, MINE])

    def hand_over(self, attempt: AttemptId, receipt_handle: str) -> Lease:
        values = {":receipt_handle": {"S": receipt_handle}}
        try:
            return self._update(
                attempt,
                {},
                clauses=[RUNNING, MINE, SAME_HANDLE],
                values=values,
                removes=["receipt_handle"],
                add={"hand_overs": 1},
            )
        except LeaseChangedError as error:
            if error.current and error.current.owns(attempt) and error.current.receipt_handle is None:
                return error.current  # our own hand-over came back as a retry
            raise

    def register_task(self, attempt: AttemptId, task_arn: str, now: datetime) -> Lease:
        sets = {"task_arn": task_arn, "started_at": now, "progress_at": now}
        return self._update(attempt, sets, clauses=[RUNNING, MINE, FIRST_TASK], values={":task_arn": {"S": task_arn}})

    def report_progress(self, attempt: AttemptId, progress: Mapping[str, Any], progress_at: datetime) -> Lease:
        return self._update(attempt, {"progress": dict(progress), "progress_at": progress_at}, clauses=[RUNNING, MINE])

    def record_result(self, attempt: AttemptId, result: RecordedResult) -> Lease:
        return self._update(attempt, {"result": result}, clauses=[RUNNING, MINE, UNCOMMITTED])

    def commit(self, attempt: AttemptId, output: CommittedOutput) -> Lease:
        try:
            return self._update(attempt, {"output": output}, clauses=[RUNNING, MINE, UNCOMMITTED, NOT_CANCELLED])
        except LeaseChangedError as error:
            if error.current and error.current.id == attempt and error.current.output == output:
                return error.current  # our own commit came back as a retry
            raise

    def mark_published(self, attempt: AttemptId, now: datetime) -> Lease:
        return self._update(attempt, {"published_at": now}, clauses=[RUNNING, MINE])

    def settle(self, before: Lease, after: Lease) -> None:
        """The attempt ends, its slot is free and its history is kept, all or nothing.

        Raises:
            LeaseChangedError: somebody else settled it, or it committed meanwhile.
        """
        clauses = [RUNNING, MINE] if before.output else [RUNNING, MINE, UNCOMMITTED]
        update = self._change(before, after, clauses, {":running": {"S": State.RUNNING.value}, **_mine(before.id)})
        self._writes.transact(
            {"Update": update}, self._slots.change(before.stage, -1), self._keep(ended(before, after))
        )

    def _keep(self, attempt: Attempt) -> dict[str, Any]:
        """The part of a transaction that remembers how an attempt ended."""
        return {"Put": {"TableName": self._table, "Item": lease_item.attempt_item(attempt)}}

    def end_waiting(self, before: Lease, after: Lease) -> None:
        values = {":before": {"S": before.state.value}, **_mine(before.id)}
        try:
            self._writes.write(self._change(before, after, ["#state = :before", MINE], values))
        except LeaseChangedError as error:
            own_write(error, after, "state", "owed")

    def strike(self, lease: Lease, done: Owed, now: datetime) -> Lease:
        after = replace(lease, owed=tuple(owed for owed in lease.owed if owed is not done))
        if done is Owed.PUBLISH:
            after = replace(after, published_at=now)
        values = {
            ":before": {"S": lease.state.value},
            ":before_owed": lease_item.encode("owed", lease.owed),
            **_mine(lease.id),
        }
        try:
            self._writes.write(self._change(lease, after, ["#state = :before", MINE, "owed = :before_owed"], values))
        except LeaseChangedError as error:
            current = error.current
            if current and current.id == lease.id and current.state is lease.state and done not in current.owed:
                return current
            raise
        return after

    def reopen(self, lease: Lease, now: datetime) -> Lease:
        after = replace(
            lease,
            state=State.RELEASED,
            output=None,
            owed=(),
            retry_at=now,
            last_error="the committed output's uploads were gone",
            result=None,
        )
        clauses = ["#state = :before", MINE, "attribute_not_exists(published_at)"]
        update = self._change(lease, after, clauses, {":before": {"S": lease.state.value}, **_mine(lease.id)})
        try:
            self._writes.transact({"Update": update}, self._keep(latest(after)))
        except LeaseChangedError as error:
            return own_write(error, after, "state", "output", "retry_at")
        return after

    def request_cancel(self, key: str, stage: str, now: datetime) -> Lease:
        """Mark a job that runs or waits; for one that nobody has claimed, leave the mark where its claim will find it.

        Raises:
            LeaseChangedError: the row kept changing.
        """
        for _ in range(CONFLICT_TRIES):
            row = self.load(key)
            try:
                if row is None:
                    return self._put_mark(cancelled_before_claim(key, stage, now))
                if row.state.is_terminal or row.cancel_requested_at:
                    return row
                values = {":before": {"S": row.state.value}, **_mine(row.id)}
                after = replace(row, cancel_requested_at=now)
                self._writes.write(self._change(row, after, ["#state = :before", MINE, NOT_CANCELLED], values))
            except LeaseChangedError:
                continue  # it was claimed, settled or marked meanwhile: look again
            return after
        raise LeaseChangedError(row)

    def _put_mark(self, mark: Lease) -> Lease:
        try:
            self._client.put_item(
                TableName=self._table,
                Item=lease_item.to_item(mark),
                ConditionExpression="attribute_not_exists(#key)",
                ExpressionAttributeNames={"#key": "key"},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            raise LeaseChangedError(None) from error
        return mark

    def note_seen(self, lease: Lease, now: datetime) -> Lease:
        after = replace(lease, seen_at=now)
        values = {":before": {"S": lease.state.value}, **_mine(lease.id)}
        self._writes.write(self._change(lease, after, ["#state = :before", MINE], values))
        return after

    def arrive(self, join_key: str, n: int, size: int, output: str, now: datetime) -> Mapping[int, str] | None:
        return self._joins.arrive(join_key, n, size, output, now)

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        return self._indexes.open_keys(stage, what)

    def keys_of_root(self, root: str) -> Iterator[str]:
        return self._indexes.keys_of_root(root)

    def ended_keys(self, stage: str, state: State, until: datetime) -> Iterator[tuple[datetime, str]]:
        return self._indexes.ended_keys(stage, state, until)

    def _update(
        self,
        attempt: AttemptId,
        sets: Mapping[str, Any],
        *,
        clauses: list[str],
        values: Mapping[str, Any] | None = None,
        removes: Iterable[str] = (),
        add: Mapping[str, int] | None = None,
    ) -> Lease:
        """One conditional update by the attempt that owns the lease; answers the row as it is now."""
        encoded = {name: lease_item.encode(name, value) or _empty(value) for name, value in sets.items()}
        update = expression(encoded, removes, add or {})
        update["ExpressionAttributeValues"] |= {
            ":running": {"S": State.RUNNING.value},
            **_mine(attempt),
            **(values or {}),
        }
        update |= {
            "TableName": self._table,
            "Key": lease_item.key_of(attempt.key),
            "ConditionExpression": " AND ".join(clauses),
        }
        return lease_item.from_item(self._writes.write(update, returns="ALL_NEW"))

    def _change(self, before: Lease, after: Lease, clauses: list[str], values: Mapping[str, Any]) -> dict[str, Any]:
        """The update that makes the row `after`, touching only what differs: a mark or a progress report written meanwhile stays."""
        update = expression(*lease_item.changes(before, after), add={})
        update["ExpressionAttributeValues"] |= values
        return update | {
            "TableName": self._table,
            "Key": lease_item.key_of(before.key),
            "ConditionExpression": " AND ".join(clauses),
        }


def _mine(attempt: AttemptId) -> dict[str, Any]:
    return {":run": {"N": str(attempt.run)}, ":attempt": {"N": str(attempt.attempt)}}


def _empty(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a lease
    """A SET cannot leave out a value; only empty progress comes here."""
    if value == {}:
        return {"S": "{}"}
    raise ValueError(f"cannot store {value!r}")
