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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters import lease_item
from longhaul.domain.errors import LeaseChangedError, NoFreeSlotError
from longhaul.domain.lease import (
    AttemptId,
    Claim,
    CommittedOutput,
    Lease,
    Message,
    OpenKind,
    Owed,
    RecordedResult,
    State,
    adopted,
    cancelled_before_claim,
)
from longhaul.ports import Clock
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX = "open"
_BATCH_GET = 100
_CONFLICT_TRIES = 8

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
SLOT_FREE = (
    "attribute_not_exists(running) OR "
    "(running < :limit AND (attribute_not_exists(effective_limit) OR running < effective_limit))"
)

# A throttle halves the effective limit at most this often, and each such stretch without one raises it by one: additive increase, multiplicative decrease.
CALM = timedelta(seconds=60)

# Some names are DynamoDB's own words; the placeholders stand for themselves everywhere.
_NAMES = {"#state": "state", "#output": "output", "#key": "key", "#ttl": "ttl", "#open": "open"}


class DynamoLeases:
    """`ports.LeaseStore` on one table."""

    def __init__(self, client: "DynamoDBClient", table: str, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._rng = rng

    def load(self, key: str) -> Lease | None:
        item = self._client.get_item(TableName=self._table, Key=lease_item.key_of(key), ConsistentRead=True).get("Item")
        return lease_item.from_item(item) if item else None

    def load_many(self, keys: Iterable[str]) -> Mapping[str, Lease]:
        """The rows that exist, by key; strongly consistent, up to 100 in one call."""
        return {
            key: lease_item.from_item(item)
            for key, item in self._get_items(lease_item.key_of(key) for key in dict.fromkeys(keys)).items()
        }

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Mapping[str, Lease], int]:
        slots = _slots_key(stage.name)
        items = self._get_items([*(lease_item.key_of(key) for key in dict.fromkeys(keys)), slots])
        free = self._free(stage, items.pop(slots["key"]["S"], {}), now)
        return {key: lease_item.from_item(item) for key, item in items.items()}, free

    def free_slots(self, stage: Stage, now: datetime) -> int:
        """A hint that saves failing transactions; the claim itself decides."""
        item = self._client.get_item(TableName=self._table, Key=_slots_key(stage.name)).get("Item", {})
        return self._free(stage, item, now)

    def _free(self, stage: Stage, slots: Mapping[str, Any], now: datetime) -> int:
        running, limit = _number(slots, "running", 0), min(stage.slots, _number(slots, "effective_limit", stage.slots))
        if limit < stage.slots and now - _time(slots, "limit_changed_at") >= CALM:
            limit = self._raise_limit(stage, limit, slots["limit_changed_at"], now)
        return max(0, limit - running)

    def _get_items(self, keys: Iterable[dict[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Items by their partition key, of which each wanted one differs."""
        wanted = list(keys)
        found: dict[str, Mapping[str, Any]] = {}
        while wanted:
            batch, wanted = wanted[:_BATCH_GET], wanted[_BATCH_GET:]
            answer = self._client.batch_get_item(RequestItems={self._table: {"Keys": batch, "ConsistentRead": True}})
            found |= {item["key"]["S"]: item for item in answer["Responses"].get(self._table, [])}
            left = answer.get("UnprocessedKeys", {}).get(self._table)
            if left:
                wanted = [dict(key) for key in left["Keys"]] + wanted
                self._clock.sleep(self._rng.uniform(0.05, 0.2))
        return found

    def throttled(self, stage: Stage, now: datetime) -> None:
        item = self._client.get_item(TableName=self._table, Key=_slots_key(stage.name)).get("Item", {})
        limit = min(stage.slots, _number(item, "effective_limit", stage.slots))
        sets = {"effective_limit": {"N": str(max(1, limit // 2))}, "limit_changed_at": _milliseconds(now)}
        long_ago = {":long_ago": _milliseconds(now - CALM)}
        self._set_limit(
            stage, sets, "attribute_not_exists(limit_changed_at) OR limit_changed_at <= :long_ago", long_ago
        )

    def _raise_limit(self, stage: Stage, limit: int, changed_at: Any, now: datetime) -> int:  # noqa: ANN401 - an attribute value
        sets = {"effective_limit": {"N": str(limit + 1)}, "limit_changed_at": _milliseconds(now)}
        return limit + 1 if self._set_limit(stage, sets, "limit_changed_at = :seen", {":seen": changed_at}) else limit

    def _set_limit(self, stage: Stage, sets: dict[str, Any], condition: str, values: Mapping[str, Any]) -> bool:
        """Whether the limit was changed; somebody else may have been first."""
        update = _expression(sets, [], {})
        update["ExpressionAttributeValues"] |= values
        try:
            self._client.update_item(
                TableName=self._table, Key=_slots_key(stage.name), ConditionExpression=condition, **update
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return False
        return True

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
            self._transact({"Put": put}, self._slots(stage.name, +1, limit=stage.slots))
        except LeaseChangedError as error:
            if error.current != claim.lease:  # else: our own write came back as a retry
                raise

    def adopt(self, lease: Lease, message: Message) -> Lease:
        after = adopted(lease, message)
        sets: dict[str, Any] = {
            "receipt_handle": after.receipt_handle,
            "receive_count": after.receive_count,
            "received_at": after.received_at,
        }
        clauses = [RUNNING, MINE, SAME_MESSAGE]
        values = {":message_id": {"S": lease.message_id}}
        if after.message_id == lease.message_id:
            clauses.append(NEWER_RECEIVE)
            values[":receive_count"] = {"N": str(message.receive_count)}
        else:
            sets |= {"message_id": after.message_id, "former_message_ids": after.former_message_ids}
        try:
            return self._update(lease.id, sets, clauses=clauses, values=values)
        except LeaseChangedError as error:
            return _own_write(error, after, "receipt_handle", "receive_count", "message_id")

    def beat(self, attempt: AttemptId, lease_expires_at: datetime) -> Lease:
        return self._update(attempt, {"lease_expires_at": lease_expires_at}, clauses=[RUNNING, MINE], add={"beats": 1})

    def hand_over(self, attempt: AttemptId, receipt_handle: str) -> Lease:
        values = {":receipt_handle": {"S": receipt_handle}}
        try:
            return self._update(
                attempt, {}, clauses=[RUNNING, MINE, SAME_HANDLE], values=values, removes=["receipt_handle"]
            )
        except LeaseChangedError as error:
            if error.current and error.current.owns(attempt) and error.current.receipt_handle is None:
                return error.current  # our own hand-over came back as a retry
            raise

    def register_task(self, attempt: AttemptId, task_arn: str, now: datetime) -> Lease:
        sets = {"task_arn": task_arn, "progress_at": now}
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
        """The attempt ends and its slot is free, both or neither.

        Raises:
            LeaseChangedError: somebody else settled it, or it committed meanwhile.
        """
        clauses = [RUNNING, MINE] if before.output else [RUNNING, MINE, UNCOMMITTED]
        update = self._change(before, after, clauses, {":running": {"S": State.RUNNING.value}, **_mine(before.id)})
        self._transact({"Update": update}, self._slots(before.stage, -1))

    def end_waiting(self, before: Lease, after: Lease) -> None:
        values = {":before": {"S": before.state.value}, **_mine(before.id)}
        try:
            self._write(self._change(before, after, ["#state = :before", MINE], values))
        except LeaseChangedError as error:
            _own_write(error, after, "state", "owed")

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
            self._write(self._change(lease, after, ["#state = :before", MINE, "owed = :before_owed"], values))
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
        try:
            self._write(self._change(lease, after, clauses, {":before": {"S": lease.state.value}, **_mine(lease.id)}))
        except LeaseChangedError as error:
            return _own_write(error, after, "state", "output", "retry_at")
        return after

    def request_cancel(self, key: str, stage: str, now: datetime) -> Lease:
        """Mark a job that runs or waits; for one that nobody has claimed, leave the mark where its claim will find it.

        Raises:
            LeaseChangedError: the row kept changing.
        """
        for _ in range(_CONFLICT_TRIES):
            row = self.load(key)
            try:
                if row is None:
                    return self._put_mark(cancelled_before_claim(key, stage, now))
                if row.state.is_terminal or row.cancel_requested_at:
                    return row
                values = {":before": {"S": row.state.value}, **_mine(row.id)}
                after = replace(row, cancel_requested_at=now)
                self._write(self._change(row, after, ["#state = :before", MINE, NOT_CANCELLED], values))
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

    def note_renewal(self, lease: Lease, now: datetime) -> Lease:
        after = replace(lease, retry_at=now)
        values = {":before": {"S": lease.state.value}, **_mine(lease.id)}
        self._write(self._change(lease, after, ["#state = :before", MINE], values))
        return after

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=INDEX,
            KeyConditionExpression="#open = :open",
            ExpressionAttributeNames={"#open": "open"},
            ExpressionAttributeValues={":open": {"S": f"{stage}#{what}"}},
        )
        for page in pages:
            for item in page["Items"]:
                yield item["key"]["S"]

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
        update = _expression(encoded, removes, add or {})
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
        return lease_item.from_item(self._write(update, returns="ALL_NEW"))

    def _change(self, before: Lease, after: Lease, clauses: list[str], values: Mapping[str, Any]) -> dict[str, Any]:
        """The update that makes the row `after`, touching only what differs: a mark or a progress report written meanwhile stays."""
        update = _expression(*lease_item.changes(before, after), add={})
        update["ExpressionAttributeValues"] |= values
        return update | {
            "TableName": self._table,
            "Key": lease_item.key_of(before.key),
            "ConditionExpression": " AND ".join(clauses),
        }

    def _write(self, update: Mapping[str, Any], returns: str = "NONE") -> Mapping[str, Any]:
        """One conditional update. A transaction that holds the row meanwhile is over in milliseconds: tried again, with jitter."""
        for tries in range(_CONFLICT_TRIES):
            try:
                answer = self._client.update_item(
                    **_with_names(update),
                    ReturnValues=returns,  # type: ignore[arg-type]  # a Literal in the stubs
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "ConditionalCheckFailedException":
                    raise LeaseChangedError(_won(error.response)) from error
                if code != "TransactionConflictException" or tries == _CONFLICT_TRIES - 1:
                    raise
                self._clock.sleep(self._rng.uniform(0, 0.05 * 2**tries))
            else:
                return answer.get("Attributes", {})
        raise AssertionError("the last try returns or raises")

    def _slots(self, stage: str, by: int, limit: int | None = None) -> dict[str, Any]:
        update: dict[str, Any] = {
            "TableName": self._table,
            "Key": _slots_key(stage),
            "UpdateExpression": "ADD running :by",
            "ExpressionAttributeValues": {":by": {"N": str(by)}},
        }
        if limit is not None:
            update["ConditionExpression"] = SLOT_FREE
            update["ExpressionAttributeValues"][":limit"] = {"N": str(limit)}
        return {"Update": update}

    def _transact(self, row: dict[str, Any], slots: dict[str, Any]) -> None:
        """Write the row and the counter, or neither. Conflicts with other transactions on the counter are tried again, with jitter."""
        ((kind, write),) = row.items()
        write = _with_names(write) if kind == "Update" else write
        items: Any = [{kind: write | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}, slots]
        for tries in range(_CONFLICT_TRIES):
            try:
                self._client.transact_write_items(TransactItems=items)
            except ClientError as error:
                if error.response["Error"]["Code"] != "TransactionCanceledException":
                    raise
                of_row, of_slots = error.response["CancellationReasons"]
                if of_row.get("Code") == "ConditionalCheckFailed":
                    raise LeaseChangedError(_won(of_row)) from error
                if of_slots.get("Code") == "ConditionalCheckFailed":
                    raise NoFreeSlotError from error
                if tries == _CONFLICT_TRIES - 1:
                    raise
                self._clock.sleep(self._rng.uniform(0, 0.05 * 2**tries))
            else:
                return


def _own_write(error: LeaseChangedError, wanted: Lease, *fields: str) -> Lease:
    """The row that won, if it has what this write was to write: then it was our own, come back as the SDK's retry after a lost answer.

    Raises:
        LeaseChangedError: somebody else's write won.
    """
    current = error.current
    if current is None or current.id != wanted.id or any(getattr(current, f) != getattr(wanted, f) for f in fields):
        raise error
    return current


def _slots_key(stage: str) -> dict[str, Any]:
    return {"key": {"S": f"slots#{stage}"}, "item": {"S": "slots"}}


def _number(item: Mapping[str, Any], name: str, default: int) -> int:
    return int(item[name]["N"]) if name in item else default


def _milliseconds(time: datetime) -> dict[str, Any]:
    return {"N": str(round(time.timestamp() * 1000))}


def _time(item: Mapping[str, Any], name: str) -> datetime:
    return datetime.fromtimestamp(_number(item, name, 0) / 1000, UTC)


def _mine(attempt: AttemptId) -> dict[str, Any]:
    return {":run": {"N": str(attempt.run)}, ":attempt": {"N": str(attempt.attempt)}}


def _empty(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a lease
    """A SET cannot leave out a value; only empty progress comes here."""
    if value == {}:
        return {"S": "{}"}
    raise ValueError(f"cannot store {value!r}")


def _expression(sets: Mapping[str, Any], removes: Iterable[str], add: Mapping[str, int]) -> dict[str, Any]:
    """An UpdateExpression with a placeholder per name and value, since many of our names are DynamoDB's own words."""
    names = {f"#n_{name}": name for name in (*sets, *removes, *add)}
    values: dict[str, Any] = {f":v_{name}": value for name, value in sets.items()}
    parts = []
    if sets:
        parts.append("SET " + ", ".join(f"#n_{name} = :v_{name}" for name in sets))
    if removes := list(removes):
        parts.append("REMOVE " + ", ".join(f"#n_{name}" for name in removes))
    if add:
        parts.append("ADD " + ", ".join(f"#n_{name} :a_{name}" for name in add))
        values |= {f":a_{name}": {"N": str(by)} for name, by in add.items()}
    return {"UpdateExpression": " ".join(parts), "ExpressionAttributeNames": names, "ExpressionAttributeValues": values}


def _with_names(update: Mapping[str, Any]) -> dict[str, Any]:
    """Add the placeholders that the condition uses: DynamoDB refuses unused ones."""
    condition = update["ConditionExpression"]
    used = {placeholder: name for placeholder, name in _NAMES.items() if placeholder in condition}
    return {**update, "ExpressionAttributeNames": update["ExpressionAttributeNames"] | used}


def _won(response: Any) -> Lease | None:  # noqa: ANN401 - an error response or a cancellation reason
    item = response.get("Item")
    return lease_item.from_item(item) if item else None
